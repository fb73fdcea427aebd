import type { Usage } from '#db/money.ts';
import { ChatReplyReader } from '#server/protocols/chat/read-reply.ts';
import type { ReplyWriter } from '#server/protocols/reply-events.ts';
import { JSON_REPLY_BYTES_MAX } from '#server/wire/bounds.ts';
import { type EventBatch, EventSplitter } from '#server/wire/event-splitter.ts';
import type { ReplyFacts } from '#server/wire/reply-facts.ts';
import { dataOf, type PromptUsage, type SseReader } from '#server/wire/sse.ts';

/**
 * A streamed chat completion on its way to a client of another protocol. The upstream's own reader reads it
 * first, so that usage, facts and the end of the reply are the same as for any other client. Pure.
 */
export class TranslatedSse implements SseReader {
  readonly #inner: SseReader;
  readonly #writer: ReplyWriter;
  readonly #errorEvent: (eventsBefore: number) => string;
  readonly #reader = new ChatReplyReader();
  readonly #events = new EventSplitter(JSON_REPLY_BYTES_MAX);
  #bytes = 0;
  #isOver = false;
  #failed = false;

  /**
   * @param inner the reader of the upstream's reply.
   * @param errorEvent the error of a reply that failed, in the client's protocol.
   */
  constructor(inner: SseReader, writer: ReplyWriter, errorEvent: (eventsBefore: number) => string) {
    this.#inner = inner;
    this.#writer = writer;
    this.#errorEvent = errorEvent;
  }

  push(chunk: Buffer): Buffer | null {
    this.#bytes += chunk.length;
    return this.#translate(this.#inner.push(chunk), false);
  }

  flush(): Buffer | null {
    return this.#translate(this.#inner.flush(), true);
  }

  /** The end of a reply that is complete, and whose upstream has sent nothing more. */
  close(): Buffer | null {
    return bytesOf(this.#end());
  }

  #translate(bytes: Buffer | null, isLast: boolean): Buffer | null {
    if (this.#isOver) return null;
    const batch = bytes && this.#events.push(bytes);
    let text = batch ? this.#take(batch) : '';
    const rest = isLast ? this.#events.rest() : null;
    if (rest && !this.#isOver) text += this.#read(rest.toString());
    // A reply is kept until its end, or is a part of an event that is.
    if (this.#bytes > JSON_REPLY_BYTES_MAX || this.#inner.failed) text += this.#fail();
    if (isLast && this.#inner.complete) text += this.#end();
    return bytesOf(text);
  }

  #take({ bytes, ends }: EventBatch): string {
    let text = '';
    let start = 0;
    for (const end of ends) {
      if (!this.#isOver) text += this.#read(bytes.toString('utf8', start, end));
      start = end;
    }
    return text;
  }

  #read(event: string): string {
    const data = dataOf(event)?.trim();
    if (data === undefined || data === '') return '';
    if (data === '[DONE]') return this.#inner.complete ? this.#end() : '';
    return this.#reader
      .read(parsed(data))
      .map((each) => this.#writer.take(each))
      .join('');
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

const bytesOf = (text: string): Buffer | null => (text === '' ? null : Buffer.from(text));

function parsed(data: string): unknown {
  try {
    return JSON.parse(data) as unknown;
  } catch {
    return null;
  }
}
