/** Ends a transfer in which nothing has moved for some time. */
export class IdleTimeout implements Disposable {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;

  constructor(ms: number) {
    this.#timer = setTimeout(
      () => this.#controller.abort(new DOMException('nothing was transferred', 'TimeoutError')),
      ms,
    ).unref();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Something has moved. */
  touch(): void {
    this.#timer.refresh();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}
