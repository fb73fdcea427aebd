import { matchesCall } from '#db/fold/call-filter.ts';
import type { Frame } from '#server/contract/frames.ts';
import type { RequestFilter, RequestRow } from '#server/contract/requests.ts';
import { compareRows, rowAfter } from './live-rows.ts';

/** The maximum number of live rows: ten seconds at 200 requests per second. */
export const LIVE_ROWS_MAX = 2_000;
/** Faster updates don't improve readability but cost CPU time. */
const PAINT_EVERY_MS = 250;

/** Fetched rows, newest first, and how far back they are complete. Null: back to the start of the range. */
export type Fetched = { rows: readonly RequestRow[]; reachesTo: string | null };

/** The rows to render. */
export type Shown = {
  rows: readonly RequestRow[];
  /** Requests received while paused. */
  newCount: number;
  /** Older live rows were dropped; they are fetched again from the last row on. */
  isCut: boolean;
};

/** A live row with its sequence number. */
type Live = { row: RequestRow; sequence: number };
type Pause = { sequence: number; requests: ReadonlySet<string>; floor: string | null };

/**
 * The listed requests: fetched rows continued by the live feed. Kept outside React; accepts hundreds of
 * frames per second and notifies four times per second.
 * While paused no row is added, removed or moved, but visible rows are still updated.
 */
export class LiveList {
  readonly #filter: RequestFilter;
  /** False if the range has an end, so that no new request belongs to it. */
  readonly #isOpen: boolean;
  readonly #live = new Map<string, Live>();
  readonly #listeners = new Set<() => void>();
  #fetched: Fetched = { rows: [], reachesTo: null };
  #fetchedByRequest = new Map<string, RequestRow>();
  #pause: Pause | null = null;
  #sequence = 0;
  /** The time of the newest dropped row: rows before it are incomplete. */
  #floor: string | null = null;
  #shown: Shown = { rows: [], newCount: 0, isCut: false };
  #timer: ReturnType<typeof setTimeout> | undefined;
  #paintedAtMs = 0;

  constructor(filter: RequestFilter, isOpen: boolean) {
    this.#filter = filter;
    this.#isOpen = isOpen;
  }

  get shown(): Shown {
    return this.#shown;
  }

  /** @returns the function that ends the subscription. */
  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      clearTimeout(this.#timer);
      this.#timer = undefined;
    };
  };

  /** Replaces the fetched rows. */
  setFetched(fetched: Fetched): void {
    this.#fetched = fetched;
    this.#fetchedByRequest = new Map(fetched.rows.map((row) => [row.request, row]));
    this.#paint();
  }

  /** Called when the dropped rows were fetched again. */
  closeGap(): void {
    // While paused, newer rows may have been dropped as well.
    if (this.#pause === null || this.#pause.floor === this.#floor) this.#floor = null;
    if (this.#pause) this.#pause = { ...this.#pause, floor: null };
    this.#paint();
  }

  apply(frames: readonly Frame[]): void {
    let isChanged = false;
    for (const frame of frames) isChanged = this.#applyOne(frame) || isChanged;
    if (isChanged) this.#paintSoon();
  }

  #applyOne(frame: Frame): boolean {
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
    if (!fetched && (!this.#isOpen || !matchesCall(this.#filter, row))) return false;
    this.#live.set(row.request, { row, sequence: ++this.#sequence });
    this.#trim();
    return true;
  }

  /**
   * Drops running rows after a gap: their end may have been missed, and a refetch returns the current ones.
   */
  #forgetRunning(): boolean {
    let isChanged = false;
    for (const [request, { row }] of this.#live)
      if (row.outcome === 'running') isChanged = this.#live.delete(request);
    return isChanged;
  }

  #trim(): void {
    if (this.#live.size <= LIVE_ROWS_MAX + (this.#pause?.requests.size ?? 0)) return;
    for (const [request, { row }] of this.#live) {
      if (this.#pause?.requests.has(request) === true) continue;
      this.#live.delete(request);
      if (this.#floor === null || row.accepted_at > this.#floor) this.#floor = row.accepted_at;
      return;
    }
  }

  get isPaused(): boolean {
    return this.#pause !== null;
  }

  /** Pauses the list, or resumes with everything received since. */
  setPaused(isPaused: boolean): void {
    if (isPaused === (this.#pause !== null)) return;
    this.#pause = isPaused
      ? {
          sequence: this.#sequence,
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
    const pause = this.#pause;
    const floor = pause ? pause.floor : this.#floor;
    const { rows: fetched, reachesTo } = this.#fetched;
    const rows: RequestRow[] = [];
    let newCount = 0;
    const add = (row: RequestRow): void => {
      const isKept = pause?.requests.has(row.request) === true || matchesCall(this.#filter, row);
      if (isKept && (floor === null || row.accepted_at > floor)) rows.push(row);
    };
    for (const row of fetched) add(newer(this.#live.get(row.request)?.row, row) ?? row);
    for (const { row, sequence } of this.#live.values()) {
      if (this.#fetchedByRequest.has(row.request)) continue;
      if (pause && sequence > pause.sequence) {
        if (matchesCall(this.#filter, row)) newCount++;
        // Rows older than the fetched range come with their page.
      } else if (reachesTo === null || row.accepted_at >= reachesTo) add(row);
    }
    return { rows: rows.toSorted(compareRows), newCount, isCut: floor !== null };
  }
}

/** The more complete of two rows of one request. */
function newer(live: RequestRow | undefined, fetched: RequestRow | undefined): RequestRow | undefined {
  if (live === undefined || fetched === undefined) return live ?? fetched;
  return fetched.end_position === null ? live : fetched;
}
