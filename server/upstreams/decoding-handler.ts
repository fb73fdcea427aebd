import type { IncomingHttpHeaders } from 'node:http';
import type { Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib';
import type { Dispatcher } from 'undici';

/**
 * Replies of upstreams that compress although they are asked not to, as networks in between do. They are
 * decoded as they come and lose their Content-Encoding, so that the handler of a reply has the bytes of one
 * that was never compressed.
 */

const DECODERS: ReadonlyMap<string, () => Transform> = new Map<string, () => Transform>([
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
  ['zstd', createZstdDecompress],
]);

type Headers = IncomingHttpHeaders;
type Controller = Dispatcher.DispatchController;

/** A new decoder of a reply with these headers; null: it is not compressed, or in a way that isn't known. */
export function decoderOf(headers: Headers): Transform | null {
  // Several in a row come as a list.
  const encoding: unknown = headers['content-encoding'];
  return typeof encoding === 'string' ? (DECODERS.get(encoding.toLowerCase())?.() ?? null) : null;
}

/**
 * Passes a reply to its handler, decoded where it is compressed. To the handler it is the reply's controller:
 * a pause holds back decoded bytes, too, so that a small reply can't become a large one in memory.
 */
export class DecodingHandler implements Dispatcher.DispatchHandler, Controller {
  readonly #handler: Dispatcher.DispatchHandler;
  /** Of the connection; set before the handler is called. */
  #connection: Controller | null = null;
  #decoder: Transform | null = null;
  /** By the handler. */
  #isPaused = false;
  #isOver = false;

  constructor(handler: Dispatcher.DispatchHandler) {
    this.#handler = handler;
  }

  onRequestStart(controller: Controller, context: unknown): void {
    this.#connection = controller;
    this.#handler.onRequestStart?.(this, context);
  }

  onResponseStart(_controller: Controller, status: number, headers: Headers, statusMessage?: string): void {
    this.#decoder = status < 200 ? null : decoderOf(headers);
    if (this.#decoder === null) return this.#handler.onResponseStart?.(this, status, headers, statusMessage);
    this.#read(this.#decoder);
    const { 'content-encoding': _encoding, 'content-length': _length, ...others } = headers;
    this.#handler.onResponseStart?.(this, status, others, statusMessage);
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    if (this.#decoder === null) this.#handler.onResponseData?.(this, chunk);
    else if (!this.#decoder.destroyed && !this.#decoder.write(chunk)) this.#connection?.pause();
  }

  onResponseEnd(_controller: Controller, trailers: Headers): void {
    if (this.#decoder === null) this.#handler.onResponseEnd?.(this, trailers);
    else this.#decoder.end();
  }

  onResponseError(_controller: Controller, error: Error): void {
    this.#decoder?.destroy();
    if (this.#isOver) return;
    this.#isOver = true;
    this.#handler.onResponseError?.(this, error);
  }

  #read(decoder: Transform): void {
    // An error of the handler ends the exchange, as undici has it for replies that are not compressed.
    const orDestroy = (step: () => void): void => {
      try {
        step();
      } catch (error) {
        decoder.destroy(error as Error);
      }
    };
    decoder.on('data', (chunk: Buffer) => orDestroy(() => this.#handler.onResponseData?.(this, chunk)));
    decoder.on('end', () => orDestroy(() => this.#handler.onResponseEnd?.(this, {})));
    decoder.on('drain', () => {
      if (!this.#isPaused) this.#connection?.resume();
    });
    decoder.on('error', (error) => {
      this.onResponseError(this, error);
      this.#connection?.abort(error);
    });
  }

  pause(): void {
    this.#isPaused = true;
    this.#decoder?.pause();
    this.#connection?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#decoder?.resume();
    this.#connection?.resume();
  }

  abort(reason: Error): void {
    this.#decoder?.destroy();
    this.#connection?.abort(reason);
  }

  get aborted(): boolean {
    return this.#connection?.aborted ?? false;
  }

  get paused(): boolean {
    return this.#isPaused;
  }

  get reason(): Error | null {
    return this.#connection?.reason ?? null;
  }
}
