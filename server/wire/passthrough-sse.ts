import type { Usage } from '#db/money.ts';
import { SSE_EVENT_BYTES_MAX } from '#server/wire/bounds.ts';
import { type EventBatch, EventSplitter } from '#server/wire/event-splitter.ts';
import { type EventEnds, OversizeEvent } from '#server/wire/oversize-event.ts';
import { OutputCounter } from '#server/wire/output-counter.ts';
import { NOTHING_TO_REDACT, type Redactor } from '#server/wire/redactor.ts';
import type { ReplyFacts } from '#server/wire/reply-facts.ts';
import type { PromptUsage, SseReader } from '#server/wire/sse.ts';
import { dataOf } from '#server/wire/sse.ts';

/** What an event of a reply is: without data, as comments are; progress; or not meant for the client. */
export type Inspected = 'no_data' | 'progress' | 'removed';

const ERROR_LINE = /(?:^|[\r\n])event: ?error/;

/**
 * A streamed reply whose client uses the upstream's own protocol: the bytes are relayed unchanged, but in
 * whole events, so that the relay can add an error of its own after a cut without gluing it to half an event.
 * Each event is inspected once as it passes, in the terms of its protocol. Of an event above the bound the
 * bytes pass uninspected, as they are received. Pure.
 */
export abstract class PassthroughSse implements SseReader {
  protected readonly output = new OutputCounter();
  readonly #events = new EventSplitter();
  #endsWithoutBlank = false;
  #dataEvents = 0;
  /** Bytes of an oversize event that are not yet counted as progress. */
  #oversizeBytes = 0;
  #oversize: OversizeEvent | null = null;
  readonly #redactor: Redactor;
  /** The end of an oversize event's last part, in which a secret may begin. */
  #heldPart = '';

  abstract readonly usage: Usage | null;
  abstract readonly promptUsage: PromptUsage | null;
  abstract readonly isImplausible: boolean;
  abstract readonly facts: Readonly<ReplyFacts>;
  abstract readonly complete: boolean;
  abstract readonly failed: boolean;

  /** @param redactor removes the upstream's credentials from events, and its address from errors. */
  constructor(redactor: Redactor = NOTHING_TO_REDACT) {
    this.#redactor = redactor;
  }

  /** @param event as latin-1 text of its bytes, blank line included. */
  protected abstract inspect(event: string): Inspected;

  /** Inspects an event that was too large to be held, by its beginning and its end. */
  protected inspectOversize(_ends: EventEnds): void {}

  push(chunk: Buffer): Buffer | null {
    const batch = this.#events.push(chunk);
    return batch && this.#relay(batch);
  }

  /**
   * Inspects one event, blank line included.
   * @returns the part that the client receives; empty: nothing.
   */
  relayEvent(event: string): string {
    const inspected = this.inspect(event);
    if (inspected !== 'no_data') this.#dataEvents++;
    if (inspected === 'removed') return '';
    return this.#redactor.event(event, this.failed || ERROR_LINE.test(event));
  }

  /**
   * Counts an event without inspecting it, of which is known that it carries just a text of so many bytes.
   * @param _spelling the same for events that differ in nothing but their text and numbers; null: unknown.
   * @returns false: it may contain a secret, and has to be inspected.
   */
  passDelta(event: string, bytes: number, _spelling: object | null): boolean {
    if (this.#redactor.isSuspect(event)) return false;
    this.#dataEvents++;
    this.output.add(bytes);
    return true;
  }

  /**
   * The rest, when the upstream has ended by itself. Some providers omit the blank line after the last event.
   * Half an event counts for nothing, and goes out only behind a complete reply.
   */
  flush(): Buffer | null {
    const rest = this.#events.rest();
    if (!rest) return null;
    const text = rest.toString('latin1');
    if (!this.isWhole(text))
      return this.complete ? Buffer.from(this.#redactor.event(text, true), 'latin1') : null;
    const event = this.#relay({ bytes: rest, text, ends: [rest.length], whole: null });
    this.#endsWithoutBlank = event !== null;
    return event;
  }

  get countedTokens(): number {
    return this.output.tokens;
  }

  get dataEvents(): number {
    return this.#dataEvents;
  }

  get insideEvent(): boolean {
    return this.#endsWithoutBlank || this.#events.isInsideEvent;
  }

  /** Whether the last event, which has no blank line, is complete otherwise. */
  protected isWhole(event: string): boolean {
    try {
      return JSON.parse(dataOf(event) ?? '') !== undefined;
    } catch {
      return false;
    }
  }

  #relay({ bytes, text, ends, whole }: EventBatch): Buffer | null {
    const kept: Buffer[] = [];
    let keptFrom = 0;
    let start = 0;
    for (let index = 0; index < ends.length; index++) {
      const end = ends[index] as number;
      // Each event is searched on its own: a search to the end of the chunk for each of its events would
      // make large chunks of small events quadratic.
      const event = text.slice(start, end);
      const relayed =
        whole?.[index] === false
          ? this.#relayPart(event, end < bytes.length || !this.insideEvent)
          : this.relayEvent(event);
      if (relayed !== event) {
        if (start > keptFrom) kept.push(bytes.subarray(keptFrom, start));
        if (relayed !== '') kept.push(Buffer.from(relayed, 'latin1'));
        keptFrom = end;
      }
      start = end;
    }
    if (keptFrom === 0 && kept.length === 0) return bytes.length === 0 ? null : bytes;
    if (keptFrom < bytes.length) kept.push(bytes.subarray(keptFrom));
    return kept.length === 0 ? null : Buffer.concat(kept);
  }

  #relayPart(part: string, isLast: boolean): string {
    this.#countPart(part.length, isLast);
    this.#oversize ??= new OversizeEvent();
    this.#oversize.push(part);
    if (isLast) this.inspectOversize(this.#oversize.take());
    if (this.#redactor.longest === 0) return part;
    const text = this.#redactor.text(this.#heldPart + part);
    const end = isLast ? text.length : Math.max(0, text.length - this.#redactor.longest);
    this.#heldPart = text.slice(end);
    return text.slice(0, end);
  }

  /** Counts a part of an oversize event: by its bytes, so that the count is the same for any chunks. */
  #countPart(bytes: number, isLast: boolean): void {
    this.#oversizeBytes += bytes;
    this.#dataEvents += Math.floor(this.#oversizeBytes / SSE_EVENT_BYTES_MAX);
    this.#oversizeBytes = isLast ? 0 : this.#oversizeBytes % SSE_EVENT_BYTES_MAX;
  }
}
