import type { CallAttribution } from '#server/attribution/attribution.ts';
import { JOINED_MAX } from '#server/idempotency/bounds.ts';
import { mayHaveRun } from '#server/idempotency/may-have-run.ts';
import { RecordedWriter } from '#server/idempotency/recorded-writer.ts';
import { ReplyRecord } from '#server/idempotency/reply-record.ts';
import type { OpenCall } from '#server/limits/open-calls.ts';
import type { EndedAttempt } from '#server/relay/attempt-sequence.ts';
import type { ReplyWriter } from '#server/relay/client-writer.ts';
import type { ReplyUsage } from '#server/relay/reply-usage.ts';
import { OPENAI_ERRORS, type ErrorFormat } from '#server/wire/error-format.ts';

/** The request that claimed a key, on the server that relays it. */
export type KeyedRequest = {
  digest: string;
  fingerprint: string;
  account: string;
  request: string;
  instance: number;
  /** Whether the account's plan keeps its reply. */
  keeps: boolean;
  attribution: Readonly<CallAttribution>;
  errorFormat: ErrorFormat | undefined;
  /** Its share of this process' memory. */
  open: Pick<OpenCall, 'holdRecord'>;
};

/** Called once a key is to be released, or its request has ended. */
type Conclude = (call: KeyedCall, isReleased: boolean) => void;

/**
 * A call with an idempotency key: its reply is recorded for its repeats. It goes on without its client while
 * a repeat waits for the reply, or if the reply is kept.
 */
export class KeyedCall {
  readonly of: KeyedRequest;
  readonly record: ReplyRecord;
  readonly #conclude: Conclude;
  #joined = 0;
  #isBegun = false;
  #isConcluded = false;
  #onLeft: () => unknown = () => {};

  constructor(of: KeyedRequest, conclude: Conclude) {
    this.of = of;
    this.#conclude = conclude;
    this.record = new ReplyRecord((bytes) => of.open.holdRecord(bytes));
  }

  /** Whether the reply is read to its end although its client has disconnected. */
  get goesOn(): boolean {
    return this.#joined > 0 || (this.of.keeps && this.record.end === null);
  }

  get isFull(): boolean {
    return this.#joined >= JOINED_MAX;
  }

  /** A repeat waits for the reply. @returns to be called when it no longer does. */
  join(): () => void {
    this.#joined++;
    return () => {
      this.#joined--;
      if (this.#joined === 0) this.#onLeft();
    };
  }

  /**
   * The call ends the claim from here on.
   * @param onLeft called when the last repeat that waits has left. @returns the writer of the reply.
   */
  begin(writer: ReplyWriter, onLeft: () => unknown): ReplyWriter {
    this.#isBegun = true;
    this.#onLeft = onLeft;
    const { errorFormat = OPENAI_ERRORS, request } = this.of;
    return new RecordedWriter(writer, this.record, errorFormat, request);
  }

  /** The request was rejected before it became a call. */
  releaseUnlessBegun(): void {
    if (!this.#isBegun) this.release();
  }

  /** No upstream has worked on the call, and it is not in the log. */
  release(): void {
    this.#end(true);
  }

  /**
   * The call has ended.
   * @returns to be called when its settlement is durable: a kept reply is never one of a call that is
   * abandoned, and a released key never leaves a reservation behind.
   */
  ended(attempts: readonly EndedAttempt[], end: Pick<ReplyUsage, 'source'>): () => void {
    const isReleased = !this.record.isBegun && !mayHaveRun(attempts, end);
    if (!isReleased) this.record.conclude();
    return () => this.#end(isReleased);
  }

  #end(isReleased: boolean): void {
    if (this.#isConcluded) return;
    this.#isConcluded = true;
    this.#conclude(this, isReleased);
  }
}
