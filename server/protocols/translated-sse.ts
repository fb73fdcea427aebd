import type { Usage } from '#db/money.ts';
import { DeltaPattern } from '#server/protocols/delta-pattern.ts';
import { decoded } from '#server/protocols/literal.ts';
import {
  type Delta,
  isDelta,
  type ReplyEvent,
  type ReplyReader,
  type ReplyWriter,
} from '#server/protocols/reply-events.ts';
import { JSON_REPLY_BYTES_MAX } from '#server/wire/bounds.ts';
import { type EventBatch, EventSplitter } from '#server/wire/event-splitter.ts';
import type { PassthroughSse } from '#server/wire/passthrough-sse.ts';
import type { ReplyFacts } from '#server/wire/reply-facts.ts';
import { dataOf, type PromptUsage, type SseReader } from '#server/wire/sse.ts';

/**
 * A streamed reply on its way to a client of another protocol. Each event is inspected by the reader that it
 * would pass in its own protocol, so that usage, facts and the end of the reply are the same as for any other
 * client; then it is read, and written in the client's protocol. Text stays as it is in the JSON, and events
 * of a known spelling aren't parsed. Pure.
 */
export class TranslatedSse implements SseReader {
  readonly #inner: PassthroughSse;
  readonly #reader: ReplyReader;
  readonly #writer: ReplyWriter;
  readonly #errorEvent: (eventsBefore: number) => string;
  readonly #events = new EventSplitter(JSON_REPLY_BYTES_MAX);
  /** Known spellings of deltas, the one that was met last first. */
  readonly #patterns: DeltaPattern[] = [];
  #unknowns = 0;
  #bytes = 0;
  #isOver = false;
  #failed = false;

  /**
   * @param inner what the reply would pass in the upstream's protocol.
   * @param errorEvent the error of a reply that failed, in the client's protocol.
   */
  constructor(
    inner: PassthroughSse,
    reader: ReplyReader,
    writer: ReplyWriter,
    errorEvent: (eventsBefore: number) => string,
  ) {
    this.#inner = inner;
    this.#reader = reader;
    this.#writer = writer;
    this.#errorEvent = errorEvent;
  }

  push(chunk: Buffer): Buffer | null {
    if (this.#isOver) return null;
    this.#bytes += chunk.length;
    const batch = this.#events.push(chunk);
    let text = batch ? this.#take(batch) : '';
    // A reply is kept until its end, or is a part of an event that is.
    if (this.#bytes > JSON_REPLY_BYTES_MAX) text += this.#fail();
    return bytesOf(text);
  }

  /** An event that only lacks its blank line counts; half of one doesn't. */
  flush(): Buffer | null {
    const rest = this.#events.rest()?.toString('latin1') ?? '';
    if (this.#isOver) return null;
    const text = rest !== '' && isWhole(rest) ? this.#event(rest) : '';
    return bytesOf(text + (this.#inner.complete ? this.#end() : ''));
  }

  /** The end of a reply that is complete, and whose upstream has sent nothing more. */
  close(): Buffer | null {
    return bytesOf(this.#end());
  }

  #take({ text, ends }: EventBatch): string {
    let out = '';
    let start = 0;
    for (const end of ends) {
      if (this.#isOver) break;
      out += this.#event(text.slice(start, end));
      start = end;
    }
    return out;
  }

  #event(event: string): string {
    const quick = this.#reader.quick ? this.#reader.quick(event) : this.#known(event);
    if (quick && this.#inner.passDelta(event, quick.text.length, this.#patterns[0] ?? null))
      return this.#writer.take(quick);
    const passed = this.#inner.relayEvent(event);
    if (this.#inner.failed) return this.#fail();
    if (this.#reader.isUnread?.(passed)) return '';
    const data = dataOf(passed)?.trim() ?? '';
    if (data === '') return '';
    let text = '';
    for (const each of this.#read(passed, data)) text += this.#writer.take(each);
    return this.#reader.isOver && this.#inner.complete ? text + this.#end() : text;
  }

  /** The delta of an event that reports nothing else, in a known spelling. */
  #known(event: string): Delta | null {
    for (let index = 0; index < this.#patterns.length; index++) {
      const delta = this.#patterns[index]?.read(event) ?? null;
      if (delta === null) continue;
      if (index > 0) this.#patterns.unshift(...this.#patterns.splice(index, 1));
      return delta;
    }
    return null;
  }

  #read(event: string, data: string): ReplyEvent[] {
    const events = this.#reader.read(parsed(data), data);
    const [first] = events;
    if (!this.#reader.quick && events.length === 1 && isDelta(first)) this.#learn(event, first);
    return events;
  }

  #learn(event: string, delta: Delta): void {
    if (this.#unknowns >= UNKNOWNS_MAX) return;
    const again = (other: string): ReplyEvent[] => {
      const data = dataOf(other)?.trim() ?? '';
      return this.#reader.read(parsed(data), data);
    };
    const pattern = DeltaPattern.of(event, delta, again);
    if (pattern === null) this.#unknowns++;
    else this.#patterns.unshift(pattern);
    if (this.#patterns.length > PATTERNS_MAX) this.#patterns.pop();
  }

  #end(): string {
    if (this.#isOver) return '';
    this.#isOver = true;
    return this.#writer.end(this.#inner.usage);
  }

  #fail(): string {
    if (this.#isOver) return '';
    this.#isOver = true;
    this.#failed = true;
    return this.#errorEvent(this.#writer.events);
  }

  get usage(): Usage | null {
    return this.#inner.usage;
  }

  get promptUsage(): PromptUsage | null {
    return this.#inner.promptUsage;
  }

  get isImplausible(): boolean {
    return this.#inner.isImplausible;
  }

  get facts(): Readonly<ReplyFacts> {
    return this.#inner.facts;
  }

  get countedTokens(): number {
    return this.#inner.countedTokens;
  }

  /** Events of the upstream, which are progress even where nothing of them goes out. */
  get dataEvents(): number {
    return this.#inner.dataEvents + this.#writer.events;
  }

  get complete(): boolean {
    return this.#inner.complete && !this.#failed;
  }

  get failed(): boolean {
    return this.#failed;
  }

  /** Only whole events go out. */
  get insideEvent(): boolean {
    return false;
  }
}

/** Spellings that are kept: one for each of some parallel calls. */
const PATTERNS_MAX = 4;
/** Deltas in spellings that aren't certain, after which no more are looked into. */
const UNKNOWNS_MAX = 16;

const DONE = '[DONE]';

const bytesOf = (text: string): Buffer | null => (text === '' ? null : Buffer.from(text, 'latin1'));

function parsed(data: string): unknown {
  if (data === DONE) return null;
  try {
    return JSON.parse(decoded(data)) as unknown;
  } catch {
    return null;
  }
}

function isWhole(event: string): boolean {
  const data = dataOf(event)?.trim() ?? '';
  return data === DONE || parsed(data) !== null;
}
