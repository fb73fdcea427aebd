import type { Command } from '#db/command-line/command.ts';

/** People see that it goes on; more often would only cost. */
const SHOWN_EVERY_MS = 250;

/** How far a long piece of reading is, on the terminal of who waits for it and nowhere else. */
export class Progress {
  readonly #err: ((text: string) => void) | null;
  readonly #what: string;
  readonly #total: number;
  readonly #startedAt = performance.now();
  #shownAt = this.#startedAt;
  #done = 0;

  /**
   * @param what is done to the events, such as `replayed`.
   * @param total how many there are.
   */
  constructor({ surroundings }: Command, what: string, total: number) {
    this.#err = process.stderr.isTTY ? surroundings.err : null;
    this.#what = what;
    this.#total = total;
  }

  /** How many are done, and how long that took. */
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
    if (this.#err === null || performance.now() - this.#shownAt < SHOWN_EVERY_MS) return;
    this.#shownAt = performance.now();
    const share = this.#total === 0 ? 100 : Math.floor((this.#done / this.#total) * 100);
    this.#err(
      `\r\x1b[K${this.#what} ${share} %: ${this.#done} of ${this.#total} events, ${this.figures.events_per_s} a second`,
    );
  }

  /** Takes the line away again. */
  end(): void {
    this.#err?.('\r\x1b[K');
  }
}
