/**
 * How long the projector rests after a page. A page of ten events costs PostgreSQL nearly as much as one of a
 * hundred, about 4 ms, so on a log in steady use it projects two pages a second, whatever the rate. After a
 * pause of a few seconds the next events are projected at once, each in a page of its own. Pure.
 */

/** The mean time between pages of a log in steady use. */
export const PAGE_EVERY_MS = 500;
/** Pages that may follow one another at once after a pause. */
export const PAGES_AT_ONCE = 8;
/** Those rest in proportion to the duration of the page: appends come first. */
const REST_FACTOR = 3;
const REST_MIN_MS = 5;
const REST_MAX_MS = 100;

export class PagePace {
  /** When the next page would be due, had all pages so far kept their distance. */
  #dueMs = -Infinity;

  /** @returns the rest in ms after a page that began and ended at these times. */
  restAfter(startedMs: number, endedMs: number): number {
    this.#dueMs = Math.max(this.#dueMs, startedMs) + PAGE_EVERY_MS;
    const proportional = (endedMs - startedMs) * REST_FACTOR;
    return Math.max(
      REST_MIN_MS,
      Math.min(REST_MAX_MS, proportional),
      this.#dueMs - (PAGES_AT_ONCE - 1) * PAGE_EVERY_MS - endedMs,
    );
  }
}
