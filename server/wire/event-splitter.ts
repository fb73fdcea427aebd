import { SSE_EVENT_BYTES_MAX } from '#server/wire/bounds.ts';
import { ByteCollector } from '#server/wire/byte-collector.ts';

/** What leaves a splitter at once: a run of events, in order and without gaps. */
export type EventBatch = {
  bytes: Buffer;
  /** The same as latin-1 text. */
  text: string;
  /** Where each event ends, blank line included. The last end is the length of the bytes. */
  ends: readonly number[];
  /** For each end whether it closes a whole event, and not a part of an oversize one; null: all do. */
  whole: readonly boolean[] | null;
};

/** Where the splitter stands between two bytes. */
const INSIDE_LINE = 0;
const AFTER_LINE = 1;
/** A CR has ended a line; a LF that follows belongs to it. */
const AFTER_CR = 2;
/** A CR has ended the event; a LF that follows belongs to it. */
const AFTER_LAST_CR = 3;
type Position = typeof INSIDE_LINE | typeof AFTER_LINE | typeof AFTER_CR | typeof AFTER_LAST_CR;

const LF = 0x0a;
const CR = 0x0d;
/**
 * Divides a stream of server-sent events at their blank lines. Each byte is searched once, and copied a
 * bounded number of times, however small the chunks are that it comes in. An event above the bound is
 * released in parts, so that no more than one event is ever held. Pure.
 */
export class EventSplitter {
  readonly #eventBytesMax: number;
  readonly #held = new ByteCollector();
  #position: Position = INSIDE_LINE;
  #isOversize = false;

  constructor(eventBytesMax = SSE_EVENT_BYTES_MAX) {
    this.#eventBytesMax = eventBytesMax;
  }

  /** Takes the next bytes. @returns the events that they complete; null: none. */
  push(chunk: Buffer): EventBatch | null {
    if (chunk.length === 0) return null;
    const text = chunk.toString('latin1');
    const ends = this.#endsIn(text);
    const lastEnd = ends.at(-1);
    const before = this.#held.length;
    const restBytes = chunk.length - (lastEnd ?? 0);
    const wasOversize = this.#isOversize;
    if (lastEnd !== undefined) this.#isOversize = restBytes > this.#eventBytesMax;
    else this.#isOversize ||= before + restBytes > this.#eventBytesMax;
    const isOversize = this.#isOversize;
    if (lastEnd === undefined && !isOversize) {
      this.#held.push(chunk);
      return null;
    }
    if (isOversize && restBytes > 0) ends.push(chunk.length);

    const held = this.#held.take();
    const last = ends.at(-1) as number;
    if (last < chunk.length) this.#held.push(chunk.subarray(last));
    const hasOversize = wasOversize || isOversize || before + last > this.#eventBytesMax;
    const whole = hasOversize ? this.#wholeOf(ends, before, wasOversize) : null;
    const fresh = last === chunk.length ? chunk : chunk.subarray(0, last);
    if (held === null) return { bytes: fresh, text: text.slice(0, last), ends, whole };
    const bytes = Buffer.concat([held, fresh], before + last);
    return { bytes, text: bytes.toString('latin1'), ends: ends.map((end) => end + before), whole };
  }

  /** Takes out the bytes of the event that is not complete; null: no event is incomplete. */
  rest(): Buffer | null {
    return this.#held.take();
  }

  /** Whether a part of an oversize event has been released, and its end has not. */
  get isInsideEvent(): boolean {
    return this.#isOversize;
  }

  #wholeOf(ends: readonly number[], before: number, continues: boolean): boolean[] {
    return ends.map((end, index) => {
      if ((index === 0 && continues) || (index === ends.length - 1 && this.#isOversize)) return false;
      return end - (index === 0 ? -before : (ends[index - 1] as number)) <= this.#eventBytesMax;
    });
  }

  #endsIn(text: string): number[] {
    return this.#position <= AFTER_LINE && !text.includes('\r')
      ? this.#endsByLf(text)
      : this.#endsByAny(text);
  }

  /** Lines that end in LF alone, as those of most providers do. */
  #endsByLf(text: string): number[] {
    const ends: number[] = [];
    if (this.#position === AFTER_LINE && text.charCodeAt(0) === LF) ends.push(1);
    for (let at = text.indexOf('\n\n', ends[0] ?? 0); at >= 0; at = text.indexOf('\n\n', at + 2))
      ends.push(at + 2);
    const isAfterLine = text.charCodeAt(text.length - 1) === LF && ends.at(-1) !== text.length;
    this.#position = isAfterLine ? AFTER_LINE : INSIDE_LINE;
    return ends;
  }

  #endsByAny(text: string): number[] {
    const ends: number[] = [];
    let position = this.#position;
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (position === AFTER_LAST_CR) {
        position = INSIDE_LINE;
        ends.push(code === LF ? at + 1 : at);
        if (code === LF) continue;
      }
      if (code === LF) {
        if (position === AFTER_LINE) ends.push(at + 1);
        position = position === AFTER_LINE ? INSIDE_LINE : AFTER_LINE;
      } else if (code === CR) {
        position = position === INSIDE_LINE ? AFTER_CR : AFTER_LAST_CR;
      } else position = INSIDE_LINE;
    }
    this.#position = position;
    return ends;
  }
}
