import type { ClientReply } from '#server/http/client-reply.ts';
import { DELIVERY_CHUNK_BYTES, KEEP_ALIVE_COMMENT_MS } from '#server/relay/bounds.ts';
import { SLOW_READER_MS } from '#server/http/bounds.ts';
import { resetConnection } from '#server/http/reset-connection.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { FencingGuard } from '#db/instances/fencing-guard.ts';
import type { BodyRest } from '#server/wire/read-body.ts';
import { OPENAI_ERRORS, type ErrorFormat } from '#server/wire/error-format.ts';

/** The producer of the bytes, which is paused while the client reads nothing. */
export type Source = { pause(): void; resume(): void };

export type ClientWriterOptions = {
  response: ClientReply;
  requestId: string;
  /** More headers for whatever is sent, in pairs; CORS. */
  extraHeaders: readonly string[];
  /** The format of errors; absent: OpenAI's. */
  errorFormat?: ErrorFormat | undefined;
  /** The rest of the request, which must not keep its client from reading the end of its reply. */
  rest?: Pick<BodyRest, 'discard'> | undefined;
  /** Whether this process may still deliver for its instance. */
  fencing: FencingGuard;
};

/** How a reply is written, whether or not it is recorded for repeats as well. */
export type ReplyWriter = Pick<ClientWriter, keyof ClientWriter>;

const KEEP_ALIVE_COMMENT = ': keep-alive\n\n';

/**
 * The client's side of a call: the bytes written to it, the form in which an error can still be sent,
 * and how fast it reads. When the connection's buffer is full the source is paused until it drains,
 * so that a slow reader costs one buffer and not the rest of its reply.
 *
 * While the instance is suspected of having been fenced (see db/instances/fencing-guard.ts) everything is
 * held back in its order and the source is paused, which looks like a client that takes nothing. When its
 * instance was fenced nothing of that is ever sent: the client receives an error. Bytes that had been
 * given to the kernel, or to Node's queue behind it, before the process stood still belongs to the time
 * before, and the hold covers it.
 */
export class ClientWriter {
  readonly #options: ClientWriterOptions;
  readonly #source: Source;
  #lastWriteMs: number;
  #fullSinceMs: number | null = null;
  #hasBody = false;
  #held: (() => void)[] | null = null;
  /** How many reasons there are to hold them. */
  #holds = 0;
  /** A part of the reply was discarded. */
  #isTruncated = false;
  /** The reply's end or its error was given here, though it may be held. */
  #isEnded = false;
  #isDetached = false;
  /** The part of a whole reply that the connection had no room for yet. */
  #rest: Buffer | null = null;

  constructor(options: ClientWriterOptions, source: Source) {
    this.#options = options;
    this.#source = source;
    this.#lastWriteMs = performance.now();
  }

  /** Whether the client takes nothing at the moment. */
  get isFull(): boolean {
    return this.#fullSinceMs !== null;
  }

  /** Whether it has taken nothing for so long that it is given up. */
  isStuck(nowMs: number): boolean {
    return this.#fullSinceMs !== null && nowMs - this.#fullSinceMs > SLOW_READER_MS;
  }

  writeHead(status: number, contentType: string, more: readonly string[] = []): void {
    if (this.#isDetached) return;
    const nowMs = performance.now();
    if (this.#mustHold(nowMs)) return this.#hold(() => this.writeHead(status, contentType, more));
    // Silence that a comment could fill begins with the head.
    this.#lastWriteMs = nowMs;
    const { response, requestId, extraHeaders } = this.#options;
    response.writeHead(status, [
      'content-type',
      contentType,
      'x-request-id',
      requestId,
      ...more,
      ...extraHeaders,
    ]);
  }

  /** Sends the head by itself, unless the first bytes have taken it along. */
  flushHead(): void {
    if (this.#hasBody || this.#isTruncated || this.#isDetached) return;
    if (this.#mustHold(performance.now())) return this.#hold(() => this.flushHead());
    this.#options.response.flushHeaders();
  }

  write(bytes: Buffer | string): void {
    if (this.#isDetached) return;
    const nowMs = performance.now();
    if (this.#mustHold(nowMs)) return this.#hold(() => this.write(bytes));
    this.#hasBody = true;
    this.#lastWriteMs = nowMs;
    if (this.#options.response.write(bytes) || this.isFull) return;
    this.#waitForDrain(nowMs);
  }

  /** Holds everything back until this is known. If it is false nothing is sent but an error. */
  holdUntil(known: Promise<boolean>): void {
    this.#held ??= [];
    this.#holds++;
    void known.then((isKnown) => this.#release(isKnown));
  }

  /** Keeps the connection alive through silence, by a comment that no client takes for data. */
  keepAlive(nowMs: number): void {
    if (nowMs - this.#lastWriteMs > KEEP_ALIVE_COMMENT_MS) this.write(KEEP_ALIVE_COMMENT);
  }

  end(bytes?: Buffer): void {
    if (this.#isDetached) return;
    this.#isEnded = true;
    const nowMs = performance.now();
    if (this.#mustHold(nowMs)) return this.#hold(() => this.end(bytes));
    if (bytes === undefined || bytes.length <= DELIVERY_CHUNK_BYTES) return this.#endResponse(bytes, nowMs);
    this.#rest = bytes;
    this.#writeRest();
  }

  /** Writes a whole reply as the client reads it: each chunk that it takes is progress. */
  #writeRest(): void {
    while (this.#rest) {
      const nowMs = performance.now();
      if (this.#mustHold(nowMs)) return this.#hold(() => this.#writeRest());
      const chunk = this.#rest.subarray(0, DELIVERY_CHUNK_BYTES);
      const isLast = chunk.length === this.#rest.length;
      this.#rest = isLast ? null : this.#rest.subarray(chunk.length);
      if (isLast) return this.#endResponse(chunk, nowMs);
      if (!this.#options.response.write(chunk)) return this.#waitForDrain(nowMs);
    }
  }

  /** Ends the response. From here on the client is slow until its connection has taken the last byte. */
  #endResponse(bytes?: Buffer | string, nowMs = performance.now()): void {
    this.#fullSinceMs = nowMs;
    this.#options.rest?.discard();
    this.#options.response.end(bytes);
  }

  /**
   * Whether the connection has taken the last byte of the reply. A reply that was never ended here has
   * nothing left to deliver.
   */
  get isDelivered(): boolean {
    return !this.#isEnded || this.#isDetached || this.#options.response.writableFinished;
  }

  /**
   * Resolves once the connection has taken the last byte of the reply (true) or was closed before (false).
   * Called while the reply is not {@link ClientWriter.isDelivered delivered}.
   */
  whenDelivered(): Promise<boolean> {
    const { response } = this.#options;
    return new Promise((resolve) => {
      if (response.destroyed) return resolve(false);
      const { socket } = response;
      // Node reports the end of a response whose connection was closed, too.
      response.once('finish', () => resolve(socket?.destroyed !== true));
      response.once('close', () => resolve(false));
    });
  }

  /** The whole answer is this refusal. */
  sendError(refusal: ApiError): void {
    if (this.#isDetached) return;
    this.#isEnded = true;
    if (this.#mustHoldErrors()) return this.#hold(() => this.sendError(refusal));
    const { response, requestId, extraHeaders, errorFormat: shape = OPENAI_ERRORS } = this.#options;
    if (response.destroyed) return;
    const body = shape.body(refusal, requestId);
    response.writeHead(refusal.status, [
      ...refusal.headers(requestId, Buffer.byteLength(body)),
      ...extraHeaders,
    ]);
    this.#endResponse(body);
  }

  /**
   * Ends a streamed reply with an error in its own terms: an event, and never a `[DONE]`.
   * @param eventsBefore how many events have gone before it, where that is known.
   */
  endWithError(refusal: ApiError, insideEvent: boolean, eventsBefore = 0): void {
    if (this.#isDetached) return;
    this.#isEnded = true;
    if (this.#mustHoldErrors())
      return this.#hold(() => this.endWithError(refusal, insideEvent, eventsBefore));
    const { response, requestId, errorFormat: shape = OPENAI_ERRORS } = this.#options;
    // The head was never sent, so that a proper refusal still can be.
    if (!response.headersSent) return this.sendError(refusal);
    const separator = insideEvent || this.#isTruncated ? '\n\n' : '';
    this.#endResponse(separator + shape.event(refusal, requestId, eventsBefore));
  }

  /** The client has gone: nothing is written any more, and nothing waits for it. */
  detach(): void {
    this.#isDetached = true;
    this.#held = null;
    this.#fullSinceMs = null;
    this.#source.resume();
  }

  /** Breaks the connection of a client that takes nothing any more, or is cut off. */
  destroy(): void {
    resetConnection(this.#options.response);
  }

  /** Whether nothing of the upstream's may go out. */
  #mustHold(nowMs: number): boolean {
    return this.#held !== null || this.#isTruncated || !this.#options.fencing.isValid(nowMs);
  }

  /** Whether errors are held back, too. An instance that was fenced may send an error at once. */
  #mustHoldErrors(): boolean {
    return !this.#isTruncated && !this.#options.fencing.isFenced && this.#mustHold(performance.now());
  }

  #hold(action: () => void): void {
    if (this.#isTruncated) return this.#endTruncated();
    if (this.#held) {
      this.#held.push(action);
      return;
    }
    this.#held = [action];
    this.#holds++;
    this.#fullSinceMs ??= performance.now();
    this.#source.pause();
    this.#options.fencing.whenKnown((isAlive) => this.#release(isAlive));
  }

  #release(isAlive: boolean): void {
    this.#holds--;
    if (isAlive && this.#holds > 0) return;
    const held = this.#held ?? [];
    this.#held = null;
    if (this.#options.response.destroyed) return;
    if (!isAlive) {
      this.#isTruncated = true;
      return this.#endTruncated();
    }
    this.#fullSinceMs = null;
    for (const action of held) action();
    if (this.#options.response.writableNeedDrain) this.#waitForDrain(performance.now());
    else this.#resumeSource();
  }

  /**
   * A truncated reply that is at its end reports an error. One that still runs is ended by its
   * owner.
   */
  #endTruncated(): void {
    const { response } = this.#options;
    // A part of a JSON reply is with the client: nothing can be added to it.
    if (this.#rest && response.headersSent) response.destroy();
    if (this.#isEnded && !response.writableEnded && !response.destroyed)
      this.endWithError(new ApiError('store_unavailable'), true);
  }

  #waitForDrain(nowMs: number): void {
    this.#fullSinceMs = nowMs;
    this.#source.pause();
    this.#options.response.once('drain', () => this.#resumeSource());
  }

  #resumeSource(): void {
    if (this.#held !== null || this.#isTruncated || this.#options.response.writableNeedDrain) return;
    if (this.#options.response.writableEnded) return;
    this.#fullSinceMs = null;
    if (this.#rest) this.#writeRest();
    else this.#source.resume();
  }
}
