import { AsyncLocalStorage } from 'node:async_hooks';
import { EventSplitter } from '#server/wire/event-splitter.ts';
import { ERROR_REPLY_BYTES_MAX, JSON_REPLY_BYTES_MAX, SSE_EVENT_BYTES_MAX } from '#server/wire/bounds.ts';

/** The bytes received for one call, which a package reads without any bound of its own. */
export class Wire {
  /** Whether the provider has answered with a success. */
  answered = false;
  readonly signal: AbortSignal;
  readonly #streams: boolean;
  #bytesCame: () => void;
  #bytes = 0;

  /** @param bytesCame called for whatever the provider sends, comments included. */
  constructor(streams: boolean, signal: AbortSignal, bytesCame: () => void) {
    this.#streams = streams;
    this.signal = signal;
    this.#bytesCame = bytesCame;
  }

  /** The package has returned a part of the reply. */
  understood(): void {
    if (this.#streams) this.#bytes = 0;
  }

  /**
   * The call is over. An idle connection remembers the call that it was made for, which must not keep the
   * rest alive.
   */
  close(): void {
    this.#bytesCame = ignore;
  }

  /** @throws {Error} where it is too much for one event, or for a reply that comes at once. */
  came(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > (this.#streams ? EVENT_BYTES_MAX : JSON_REPLY_BYTES_MAX))
      throw new Error('the reply of the provider is too large');
    this.#bytesCame();
  }
}

const ignore = (): void => {};

/**
 * Between two parts a package may buffer an event and its neighbors. Images are events of some
 * megabytes.
 */
const EVENT_BYTES_MAX = 8 * SSE_EVENT_BYTES_MAX;

const calls = new AsyncLocalStorage<Wire>();

/** Runs what a package does for a call, so that its requests are known to be of this call. */
export function overWire<T>(wire: Wire, run: () => T): T {
  return calls.run(wire, run);
}

/** The encodings that `fetch` decodes by itself, piece by piece as they are read. */
const DECODED: ReadonlySet<string> = new Set(['identity', 'gzip', 'x-gzip', 'deflate', 'br', 'zstd']);

/**
 * The `fetch` that is given to a package. It follows no redirect, asks for no compressed reply, ends with
 * its call, and reads no more than the bounds allow, piece by piece as the reader takes them.
 */
export function boundedFetch(fetch: typeof globalThis.fetch): typeof globalThis.fetch {
  return async (input, init) => {
    const wire = calls.getStore();
    const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined));
    headers.set('accept-encoding', 'identity');
    const signals = [init?.signal, wire?.signal].filter((signal) => signal !== undefined && signal !== null);
    const response = await fetch(input, {
      ...init,
      headers,
      redirect: 'manual',
      signal: AbortSignal.any(signals),
    });
    const { status, statusText, body } = response;
    if (!DECODED.has(response.headers.get('content-encoding') ?? 'identity')) {
      await body?.cancel();
      throw new Error('the reply of the provider is compressed in an unknown way');
    }
    if (response.ok && wire) wire.answered = true;
    if (!body) return response;
    const isSse = /^text\/event-stream\b/i.test(response.headers.get('content-type') ?? '');
    const came = (bytes: number): void => wire?.came(bytes);
    const bounded = !response.ok
      ? firstBytes(body, ERROR_REPLY_BYTES_MAX)
      : readBy(body, came, isSse ? new EventSplitter(EVENT_BYTES_MAX) : null);
    return new Response(bounded, { status, statusText, headers: response.headers });
  };
}

/**
 * The same bytes. A package gets server-sent events whole: its own parser may search all that it has of an
 * event again for each chunk.
 * @param came called for each chunk, before it is passed on.
 * @param events divides the bytes into events; null: they pass in the chunks they came in.
 */
function readBy(
  body: ReadableStream<Uint8Array>,
  came: (bytes: number) => void,
  events: EventSplitter | null,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        for (;;) {
          const { done, value } = await reader.read();
          if (done) {
            const rest = events?.rest();
            if (rest) controller.enqueue(rest);
            return controller.close();
          }
          try {
            came(value.length);
          } catch (error) {
            reader.cancel(error).catch(() => {});
            throw error;
          }
          const { buffer, byteOffset, length } = value;
          const passed = events ? events.push(Buffer.from(buffer, byteOffset, length))?.bytes : value;
          if (passed) return controller.enqueue(passed);
        }
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

/** The beginning of an error's body; of a longer one nothing can be read anyway. */
function firstBytes(body: ReadableStream<Uint8Array>, most: number): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  let left = most;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        controller.enqueue(value.subarray(0, left));
        left -= value.length;
        if (left > 0) return;
        controller.close();
        reader.cancel().catch(() => {});
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}
