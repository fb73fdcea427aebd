import type { ServerResponse } from 'node:http';
import { KEEP_ALIVE_COMMENT_MS, SLOW_READER_MS } from '#server/bounds.ts';
import type { Refusal } from '#server/errors.ts';

/** What the bytes come from, which waits while the client takes nothing. */
export type Source = { pause(): void; resume(): void };

export type OutgoingOptions = {
  response: ServerResponse;
  requestId: string;
  /** More headers for whatever is sent, in pairs; CORS. */
  extraHeaders: readonly string[];
};

const KEEP_ALIVE_COMMENT = ': keep-alive\n\n';

/**
 * The client's side of a delivery: what is written to it, in which form an error can still be told,
 * and how fast it reads. When the connection's buffer is full the source is paused until it drains,
 * so that a slow reader costs one buffer and not the rest of its reply.
 */
export class Outgoing {
  readonly #options: OutgoingOptions;
  readonly #source: Source;
  #lastWriteMs: number;
  #fullSinceMs: number | null = null;
  #hasBody = false;

  constructor(options: OutgoingOptions, source: Source) {
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
    const { response, requestId, extraHeaders } = this.#options;
    response.writeHead(status, ['content-type', contentType, 'x-request-id', requestId, ...more, ...extraHeaders]);
  }

  /** Sends the head by itself, unless the first bytes have taken it along. */
  flushHead(): void {
    if (!this.#hasBody) this.#options.response.flushHeaders();
  }

  write(bytes: Buffer | string): void {
    this.#hasBody = true;
    this.#lastWriteMs = performance.now();
    if (this.#options.response.write(bytes) || this.isFull) return;
    this.#fullSinceMs = this.#lastWriteMs;
    this.#source.pause();
    this.#options.response.once('drain', () => {
      this.#fullSinceMs = null;
      this.#source.resume();
    });
  }

  /** Keeps the connection alive through silence, by a comment that no client takes for data. */
  keepAlive(nowMs: number): void {
    if (nowMs - this.#lastWriteMs > KEEP_ALIVE_COMMENT_MS) this.write(KEEP_ALIVE_COMMENT);
  }

  end(bytes?: Buffer): void {
    this.#options.response.end(bytes);
  }

  /** The whole answer is this refusal. */
  refuse(refusal: Refusal): void {
    const { response, requestId, extraHeaders } = this.#options;
    if (response.destroyed) return;
    const body = refusal.body(requestId);
    response.writeHead(refusal.status, [...refusal.headers(requestId, Buffer.byteLength(body)), ...extraHeaders]);
    response.end(body);
  }

  /** Ends a streamed reply with an error in its own terms: an event, and never a `[DONE]`. */
  endWithError(refusal: Refusal, insideEvent: boolean): void {
    const { response, requestId } = this.#options;
    const separator = insideEvent ? '\n\n' : '';
    response.end(`${separator}data: ${refusal.body(requestId)}\n\n`);
  }

  /** Breaks the connection of a client that takes nothing any more. */
  destroy(): void {
    this.#options.response.destroy();
  }
}
