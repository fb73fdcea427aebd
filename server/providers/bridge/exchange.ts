import type { Dispatcher } from 'undici';

/** After this long without data, while the provider sends something, a comment is sent to the reader. */
const SIGN_OF_LIFE_MS = 5_000;
const COMMENT = Buffer.from(': working\n\n');

/**
 * One call as its handler sees it: callbacks in order, none after an end, and none while it is
 * paused. What `undici` is to the handler of an upstream over HTTP.
 */
export class Exchange implements Dispatcher.DispatchController {
  readonly #handler: Dispatcher.DispatchHandler;
  readonly #abort = new AbortController();
  #over = false;
  #begun = false;
  #paused: PromiseWithResolvers<void> | null = null;
  #reason: Error | null = null;
  #lastDataMs = Date.now();
  readonly #ended = Promise.withResolvers<void>();

  constructor(handler: Dispatcher.DispatchHandler) {
    this.#handler = handler;
    handler.onRequestStart?.(this, {});
  }

  get aborted(): boolean {
    return this.#reason !== null;
  }

  get reason(): Error | null {
    return this.#reason;
  }

  get paused(): boolean {
    return this.#paused !== null;
  }

  /** Aborted when the rest is not needed any more. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Whether it has ended, one way or another. */
  get over(): boolean {
    return this.#over;
  }

  /** Resolves when it has. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** Whether the handler has received a head. */
  get begun(): boolean {
    return this.#begun;
  }

  abort(reason: Error): void {
    if (this.#over) return;
    this.#reason = reason;
    this.#end();
    // Not within the handler's own call, which has not come back yet.
    queueMicrotask(() => this.#handler.onResponseError?.(this, reason));
  }

  pause(): void {
    if (!this.#over) this.#paused ??= Promise.withResolvers();
  }

  resume(): void {
    this.#paused?.resolve();
    this.#paused = null;
  }

  /** Waits while the handler takes nothing. */
  async whileTaken(): Promise<void> {
    while (this.#paused) await this.#paused.promise;
  }

  head(status: number, headers: Record<string, string>): void {
    if (this.#over) return;
    this.#begun = true;
    this.#handler.onResponseStart?.(this, status, headers, status === 200 ? 'OK' : '');
  }

  data(text: string): void {
    if (this.#over) return;
    this.#lastDataMs = Date.now();
    this.#handler.onResponseData?.(this, Buffer.from(text));
  }

  /**
   * The provider sends something that makes no data: comments of its own, or what a chat has no place for.
   */
  lives(): void {
    if (this.#over || !this.#begun || this.#paused || Date.now() - this.#lastDataMs < SIGN_OF_LIFE_MS) return;
    this.#lastDataMs = Date.now();
    this.#handler.onResponseData?.(this, COMMENT);
  }

  end(): void {
    if (this.#over) return;
    this.#end();
    this.#handler.onResponseEnd?.(this, {});
  }

  fail(error: Error): void {
    if (this.#over) return;
    this.#end();
    this.#handler.onResponseError?.(this, error);
  }

  #end(): void {
    this.#over = true;
    this.#ended.resolve();
    this.resume();
    // Whatever the package still has open is closed with it.
    this.#abort.abort(this.#reason ?? undefined);
  }
}
