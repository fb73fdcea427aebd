import type { KeptReply } from '#db/idempotency/sealed-reply.ts';
import { KEPT_REPLY_BYTES_MAX } from '#server/idempotency/bounds.ts';

type Head = Omit<KeptReply, 'body'>;

/**
 * How a recorded reply ended. `complete`: it is whole, with an error at its end where it has one. `lacking`:
 * it is longer than is kept, there was no memory for it, or the request ended without one. `released`: the
 * request left no trace, and its repeats are carried out.
 */
export type RecordEnd = 'complete' | 'lacking' | 'released';

/**
 * The reply to a request with an idempotency key, as its client receives it. Repeats read it while it grows.
 * An error in place of a reply is not shown before it is decided that the key keeps it.
 */
export class ReplyRecord {
  readonly #hold: (bytes: number) => boolean;
  readonly #readers = new Set<() => void>();
  readonly #chunks: Buffer[] = [];
  #bytes = 0;
  #head: Head | null = null;
  #isShown = false;
  #end: RecordEnd | null = null;
  /** An error reply that waits for the decision. */
  #error: KeptReply | null = null;

  /** @param hold holds so many bytes of memory for the reply; false: there is no room for them. */
  constructor(hold: (bytes: number) => boolean) {
    this.#hold = hold;
  }

  /** A whole reply that was kept. */
  static of({ body, ...head }: KeptReply): ReplyRecord {
    const record = new ReplyRecord(() => true);
    record.#head = head;
    record.#isShown = true;
    record.#chunks.push(body);
    record.#end = 'complete';
    return record;
  }

  /** The head, once the client has it. */
  get head(): Head | null {
    return this.#isShown ? this.#head : null;
  }

  /** The body so far. */
  get chunks(): readonly Buffer[] {
    return this.#isShown ? this.#chunks : NO_CHUNKS;
  }

  /** Null: more may follow. */
  get end(): RecordEnd | null {
    return this.#end;
  }

  /** Whether its client has a part of the reply. */
  get isBegun(): boolean {
    return this.#head !== null;
  }

  begin(head: Head): void {
    if (this.#end === null) this.#head = head;
  }

  show(): void {
    if (this.#head === null || this.#isShown || this.#end !== null) return;
    this.#isShown = true;
    this.#changed();
  }

  push(bytes: Buffer | string): void {
    if (this.#end !== null) return;
    // The reader of the upstream's reply may use its buffers again.
    const chunk = Buffer.from(bytes as string);
    const size = this.#bytes + chunk.length;
    if (size > KEPT_REPLY_BYTES_MAX || !this.#hold(size)) return this.#drop();
    this.#bytes = size;
    this.#chunks.push(chunk);
    if (this.#isShown) this.#changed();
    else this.show();
  }

  /** The reply is whole. */
  complete(): void {
    if (this.#end !== null) return;
    this.#isShown = true;
    this.#finish('complete');
  }

  /** The client gets an error in place of a reply. */
  reject(error: KeptReply): void {
    if (this.#end === null) this.#error ??= error;
  }

  /** The request has ended, and its key is not released. */
  conclude(): void {
    if (this.#end !== null) return;
    const error = this.#error;
    if (error === null || this.#head !== null) return this.#drop();
    const { body, ...head } = error;
    this.#head = head;
    this.#chunks.push(body);
    this.complete();
  }

  /** The key is free again. */
  release(): void {
    this.#finish('released');
  }

  /** The whole reply; null: it is not whole. */
  whole(): KeptReply | null {
    if (this.#end !== 'complete' || this.#head === null) return null;
    return { ...this.#head, body: Buffer.concat(this.#chunks) };
  }

  /** Calls `read` with each change, until the returned function is called. */
  follow(read: () => void): () => void {
    this.#readers.add(read);
    return () => this.#readers.delete(read);
  }

  #drop(): void {
    this.#chunks.length = 0;
    this.#hold(0);
    this.#finish('lacking');
  }

  #finish(end: RecordEnd): void {
    this.#end = end;
    this.#changed();
  }

  #changed(): void {
    for (const read of [...this.#readers]) read();
  }
}

const NO_CHUNKS: readonly Buffer[] = [];
