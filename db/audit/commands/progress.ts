import type { Command } from '#db/command-line/command.ts';
import { REDRAW_INTERVAL_MS } from '#db/audit/bounds.ts';

/** A progress line on standard error, shown only if standard error is a terminal. */
export class Progress {
  readonly #err: ((text: string) => void) | null;
  readonly #what: string;
  readonly #total: number;
  readonly #startedAt = performance.now();
  #shownAt = this.#startedAt;
  #done = 0;

  /**
   * @param what the verb, such as `replayed`.
   * @param total the number of events.
   */
  constructor({ surroundings }: Command, what: string, total: number) {
    this.#err = process.stderr.isTTY ? surroundings.err : null;
    this.#what = what;
    this.#total = total;
  }

  /** The number of events processed so far, and the rate. */
  get figures(): { events: number; elapsed_ms: number; events_per_s: number } {
    const elapsedMs = performance.now() - this.#startedAt;
    return {
      events: this.#done,
      elapsed_ms: Math.round(elapsedMs),
      events_per_s: Math.round((this.#done / Math.max(elapsedMs, 1)) * 1000),
    };
  }

  add(count: number): void {
    this.#done += count;
    if (this.#err === null || performance.now() - this.#shownAt < REDRAW_INTERVAL_MS) return;
    this.#shownAt = performance.now();
    const share = this.#total === 0 ? 100 : Math.floor((this.#done / this.#total) * 100);
    this.#err(
      `\r\x1b[K${this.#what} ${share} %: ${this.#done} of ${this.#total}, ${this.figures.events_per_s} ` +
        'events/s',
    );
  }

  /** Clears the line. */
  end(): void {
    this.#err?.('\r\x1b[K');
  }
}
