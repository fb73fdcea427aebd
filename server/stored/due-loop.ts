/** Rows that any server may take when they are due. */
export type DueStore<Row> = {
  /** Called when a row of this process is or becomes due. */
  onDue: () => void;
  /** Repeats what this process could not give back. */
  releaseAll(): Promise<void>;
  /** Takes some of the rows that are due, for a time. */
  takeDue(instance: number, limit: number): Promise<Row[]>;
};

export type DueLoopOptions<Row> = {
  store: DueStore<Row>;
  /** The number of this process's instance. */
  instance: () => number;
  /** How many rows are handled at the same time. */
  atOnceMax: number;
  /** The interval of looks while there were rows lately, for how long that is, and the interval otherwise. */
  lookMs: number;
  activeMs: number;
  idleLookMs: number;
  /** Handles a row. Without an effect it is due again when it is no longer taken. */
  handle: (row: Row) => Promise<void>;
  onError: (error: unknown) => void;
};

/** Looks for rows that are due and handles them, often while there were any lately, until it is closed. */
export class DueLoop<Row> {
  readonly #options: DueLoopOptions<Row>;
  readonly #handling = new Set<Promise<void>>();
  readonly #stopped = new AbortController();
  /** Until the next look; none while one runs. */
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | null = null;
  #activeUntilMs = -Infinity;

  constructor(options: DueLoopOptions<Row>) {
    this.#options = options;
    options.store.onDue = () => this.#hasten();
    this.#wait();
  }

  /** Aborted when it is closed. */
  get signal(): AbortSignal {
    return this.#stopped.signal;
  }

  /** Ends the requests in flight; another server, or the next one, takes their rows over. */
  async close(): Promise<void> {
    this.#stopped.abort();
    clearTimeout(this.#timer);
    await this.#looking;
    await Promise.all(this.#handling);
  }

  #wait(): void {
    if (this.signal.aborted) return;
    const { lookMs, idleLookMs } = this.#options;
    const isActive = this.#handling.size > 0 || performance.now() < this.#activeUntilMs;
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        this.#looking = this.#look().finally(() => this.#wait());
      },
      isActive ? lookMs : idleLookMs,
    ).unref();
  }

  #hasten(): void {
    const wasIdle = performance.now() >= this.#activeUntilMs;
    this.#activeUntilMs = performance.now() + this.#options.activeMs;
    if (!wasIdle || this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#wait();
  }

  async #look(): Promise<void> {
    const { store, instance, atOnceMax, activeMs, handle, onError } = this.#options;
    try {
      await store.releaseAll();
      const free = atOnceMax - this.#handling.size;
      if (free === 0) return;
      const due = await store.takeDue(instance(), free);
      if (due.length > 0) this.#activeUntilMs = performance.now() + activeMs;
      for (const row of due) {
        const handling = handle(row)
          .catch(onError)
          .finally(() => this.#handling.delete(handling));
        this.#handling.add(handling);
      }
    } catch (error) {
      onError(error);
    }
  }
}
