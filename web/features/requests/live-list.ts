import { matches } from '#server/contract/filter.ts';
import type { Frame } from '#server/contract/frames.ts';
import type { RequestFilter, RequestRow } from '#server/contract/requests.ts';
import { compareRows, rowAfter } from './live-rows.ts';

/** Rows that came by the feed and are kept; at 200 a second, those of ten seconds. */
export const LIVE_ROWS_MAX = 2_000;
/** A table that is painted more often is not read any better, and costs the page its calm. */
const PAINT_EVERY_MS = 250;

/**
 * What was fetched: rows, newest first, and how far back they reach without a hole. Null: to the beginning of
 * the time that is shown.
 */
export type Fetched = { rows: readonly RequestRow[]; reachesTo: string | null };

/** What the table shows. */
export type Shown = {
  rows: readonly RequestRow[];
  /** Requests that came while the table holds still. */
  arrivals: number;
  /** Older rows are not there any more, because many came since: they are fetched from the last row on. */
  isCut: boolean;
};

/** A row of the feed, with its number in the order of arrival. */
type Live = { row: RequestRow; arrival: number };
type Hold = { arrival: number; requests: ReadonlySet<string>; floor: string | null };

/**
 * The requests that are listed: what was fetched, carried on by the live feed. It is kept outside of
 * what is painted, takes hundreds of frames a second, and tells of changes four times a second.
 *
 * While it holds still no row comes, goes or moves; those that are there still get their endings.
 */
export class LiveList {
  readonly #filter: RequestFilter;
  /** False: the time that is shown is over, so nothing new belongs to it. */
  readonly #isOpen: boolean;
  readonly #live = new Map<string, Live>();
  readonly #listeners = new Set<() => void>();
  #fetched: Fetched = { rows: [], reachesTo: null };
  #fetchedByRequest = new Map<string, RequestRow>();
  #hold: Hold | null = null;
  #arrivals = 0;
  /** When the newest row was accepted that was dropped to make place: older ones have holes among them. */
  #floor: string | null = null;
  #shown: Shown = { rows: [], arrivals: 0, isCut: false };
  #timer: ReturnType<typeof setTimeout> | undefined;
  #paintedAtMs = 0;

  constructor(filter: RequestFilter, isOpen: boolean) {
    this.#filter = filter;
    this.#isOpen = isOpen;
  }

  get shown(): Shown {
    return this.#shown;
  }

  /** Tells of changes to what is shown. @returns what ends it. */
  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      clearTimeout(this.#timer);
      this.#timer = undefined;
    };
  };

  /** What was fetched now stands in place of what was before. */
  setFetched(fetched: Fetched): void {
    this.#fetched = fetched;
    this.#fetchedByRequest = new Map(fetched.rows.map((row) => [row.request, row]));
    this.#paint();
  }

  /** Older rows were fetched from the last one on: there is no hole any more. */
  closeGap(): void {
    // While it holds still, newer ones may have been dropped besides.
    if (this.#hold === null || this.#hold.floor === this.#floor) this.#floor = null;
    if (this.#hold) this.#hold = { ...this.#hold, floor: null };
    this.#paint();
  }

  take(frames: readonly Frame[]): void {
    let isChanged = false;
    for (const frame of frames) isChanged = this.#takeOne(frame) || isChanged;
    if (isChanged) this.#paintSoon();
  }

  #takeOne(frame: Frame): boolean {
    if (frame.type === 'gap') return this.#forgetRunning();
    if (!('request' in frame)) return false;
    const live = this.#live.get(frame.request);
    const fetched = this.#fetchedByRequest.get(frame.request);
    const row = rowAfter(frame, newer(live?.row, fetched));
    if (row === null) return false;
    if (live) {
      live.row = row;
      return true;
    }
    if (!fetched && (!this.#isOpen || !matches(this.#filter, row))) return false;
    this.#live.set(row.request, { row, arrival: ++this.#arrivals });
    this.#trim();
    return true;
  }

  /** Whose endings may be among what was missed: those that still run are in what is fetched anew. */
  #forgetRunning(): boolean {
    let isChanged = false;
    for (const [request, { row }] of this.#live)
      if (row.outcome === 'running') isChanged = this.#live.delete(request);
    return isChanged;
  }

  #trim(): void {
    if (this.#live.size <= LIVE_ROWS_MAX + (this.#hold?.requests.size ?? 0)) return;
    for (const [request, { row }] of this.#live) {
      if (this.#hold?.requests.has(request) === true) continue;
      this.#live.delete(request);
      if (this.#floor === null || row.accepted_at > this.#floor) this.#floor = row.accepted_at;
      return;
    }
  }

  get isHeld(): boolean {
    return this.#hold !== null;
  }

  /** Holds still, or goes on with all that came since. */
  setHeld(isHeld: boolean): void {
    if (isHeld === (this.#hold !== null)) return;
    this.#hold = isHeld
      ? {
          arrival: this.#arrivals,
          requests: new Set(this.#shown.rows.map(({ request }) => request)),
          floor: this.#floor,
        }
      : null;
    this.#paint();
  }

  #paintSoon(): void {
    if (this.#listeners.size === 0) return;
    this.#timer ??= setTimeout(
      () => this.#paint(),
      Math.max(0, PAINT_EVERY_MS - (Date.now() - this.#paintedAtMs)),
    );
  }

  #paint(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#paintedAtMs = Date.now();
    this.#shown = this.#listed();
    for (const listener of this.#listeners) listener();
  }

  #listed(): Shown {
    const hold = this.#hold;
    const floor = hold ? hold.floor : this.#floor;
    const { rows: fetched, reachesTo } = this.#fetched;
    const rows: RequestRow[] = [];
    let arrivals = 0;
    const add = (row: RequestRow): void => {
      const isKept = hold?.requests.has(row.request) === true || matches(this.#filter, row);
      if (isKept && (floor === null || row.accepted_at > floor)) rows.push(row);
    };
    for (const row of fetched) add(newer(this.#live.get(row.request)?.row, row) ?? row);
    for (const { row, arrival } of this.#live.values()) {
      if (this.#fetchedByRequest.has(row.request)) continue;
      if (hold && arrival > hold.arrival) {
        if (matches(this.#filter, row)) arrivals++;
        // Older than what was fetched so far: it comes with the page that it belongs to.
      } else if (reachesTo === null || row.accepted_at >= reachesTo) add(row);
    }
    return { rows: rows.toSorted(compareRows), arrivals, isCut: floor !== null };
  }
}

/** Of two rows of one request the one that says more. */
function newer(live: RequestRow | undefined, fetched: RequestRow | undefined): RequestRow | undefined {
  if (live === undefined || fetched === undefined) return live ?? fetched;
  return fetched.end_position === null ? live : fetched;
}
