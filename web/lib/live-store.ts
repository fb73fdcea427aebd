import { BUCKETS, bucketOf } from '#db/projections/buckets.ts';
import type { Frame, LiveMessage } from '#server/contract/frames.ts';
import type { RequestPage } from '#server/contract/requests.ts';
import type { UsageReport } from '#server/contract/usage.ts';
import { type LastCall, lastCallOf, lastCallOfFrame } from './last-calls.ts';
import { type Known, mixedQuantile } from './quantile-mix.ts';
import { type RunningCall, RunningCalls } from './running-calls.ts';
import { SecondsRing } from './seconds-ring.ts';
import { addTally, callsOf, countEnding, type Ending, noTally, type Tally, tallyOf } from './tally.ts';

/** What was read from the tables: figures to begin with, each of its own position. */
export type Base = {
  /** In buckets of time. */
  series: UsageReport;
  /** By key and model. */
  groups: UsageReport;
  /** The newest requests, and those that run. */
  last: RequestPage;
  running: RequestPage;
  bucketMs: number;
  /** How many buckets are shown, the one that is under way included. */
  buckets: number;
};

export type Group = { id: string; tally: Tally };
/** Those with most calls, and how many there are in all. */
export type Ranking = { first: readonly Group[]; count: number };
export type LiveView = {
  total: Tally;
  /** Until the first byte of a reply. */
  firstByte: { p50_ms: number; p95_ms: number } | null;
  /** Calls a second over the last ten; null: it has not been live for long enough. */
  perSecond: number | null;
  /** Calls in each of the last sixty seconds. */
  seconds: readonly number[];
  buckets: readonly { atMs: number; tally: Tally }[];
  byKey: Ranking;
  byModel: Ranking;
  running: readonly RunningCall[];
  runningCount: number;
  /** More run than the list could tell: the count is of those that are known. */
  hasMoreRunning: boolean;
  last: readonly LastCall[];
  /** Endings that the feed has told of since the page was opened. */
  endings: number;
  /** Events were left out of the feed: figures are too low until they are fetched anew. */
  isMissing: boolean;
};

const SECONDS_SHOWN = 60;
const SECONDS_KEPT = 120;
const RATE_SECONDS = 10;
const RUNNING_SHOWN = 100;
const LAST_SHOWN = 10;
const GROUPS_SHOWN = 6;
/** Endings that a base may lag behind the feed: some seconds of a busy relay. */
const RECENT_MAX = 5_000;
const BUCKETS_KEPT_MAX = 900;
const GROUPS_KEPT_MAX = 4_000;

/** The position behind which the feed has to go on. */
export const positionOf = ({ series, groups, last, running }: Base): number =>
  Math.min(series.position, groups.position, last.position, running.position);

/**
 * Figures from the tables, brought on by the live feed: each ending is counted once, when it comes,
 * and what is shown is read off. Everything in it is bounded. Pure but for its own state.
 *
 * The newest endings are kept, so that later figures from the tables can take the place of the ones
 * before: what those don't have yet is counted on top of them.
 */
export class LiveStore {
  #base: Base;
  /** The newest endings; every one above this position is among them. */
  #recent: Ending[] = [];
  #knownFrom: number;
  #seen: number;
  #endings = 0;
  #isMissing = false;
  /** How far this clock is ahead of the server's, with the way here; the least that was seen. */
  #aheadMs = Infinity;
  #liveSinceMs: number | null = null;
  #total: Tally = noTally();
  #buckets = new Map<number, Tally>();
  #byKey = new Map<string, Tally>();
  #byModel = new Map<string, Tally>();
  #firstBytes: number[] = [];
  #last: LastCall[] = [];
  /** The position of the list that it was begun with: a later base does not begin it anew. */
  #lastFrom = 0;
  readonly #running = new RunningCalls();
  readonly #seconds = new SecondsRing(SECONDS_KEPT);

  constructor(base: Base) {
    this.#base = base;
    this.#knownFrom = this.#seen = positionOf(base);
    this.#begin(base);
    this.#beginCalls(base);
  }

  /**
   * Puts newer figures in the place of those that it began with.
   * @returns false where they lie too far back to be brought on: the ones before stay.
   */
  rebase(base: Base): boolean {
    if (positionOf(base) < this.#knownFrom) return false;
    this.#begin(base);
    if (this.#isMissing) this.#beginCalls(base);
    this.#isMissing = false;
    return true;
  }

  /** @param nowMs by this clock. */
  take({ frames, at }: LiveMessage, nowMs: number): void {
    this.#aheadMs = Math.min(this.#aheadMs, nowMs - Date.parse(at));
    this.#liveSinceMs ??= this.#serverMs(nowMs);
    for (const frame of frames) this.#takeFrame(frame);
    if (this.#recent.length > 2 * RECENT_MAX) this.#forget();
  }

  #takeFrame(frame: Frame): void {
    switch (frame.type) {
      case 'progress':
        this.#running.progress(frame);
        return;
      case 'gap':
        this.#isMissing = true;
        this.#knownFrom = Math.max(this.#knownFrom, frame.position);
        this.#seen = Math.max(this.#seen, frame.position);
        this.#recent = [];
        this.#running.clear();
        return;
      case 'started':
      case 'settled':
      case 'refused':
        // Another part of the page may have had the feed go back.
        if (frame.position <= this.#seen) return;
        this.#seen = frame.position;
        if (frame.type === 'started') this.#running.started(frame);
        else this.#end(frame);
        return;
      default:
      // Quotas and notices are for others, and usage is counted from the endings.
    }
  }

  #end(frame: Ending): void {
    this.#endings += 1;
    this.#recent.push(frame);
    this.#running.ended(frame.request);
    this.#count(frame);
    this.#listLast(frame);
    this.#seconds.add(
      Math.floor(Date.parse(frame.at) / 1_000),
      frame.type === 'refused' ? frame.refused_count : 1,
    );
  }

  #forget(): void {
    const gone = this.#recent.splice(0, this.#recent.length - RECENT_MAX);
    this.#knownFrom = gone.at(-1)?.position ?? this.#knownFrom;
  }

  /**
   * Whether there is anything to move on a page where nothing comes: the last seconds. @param nowMs by this
   * clock.
   */
  isMoving(nowMs: number): boolean {
    return this.#seconds.upTo(this.#second(nowMs), SECONDS_SHOWN + 1).some((count) => count > 0);
  }

  /** What is shown. @param nowMs by this clock. */
  view(nowMs: number): LiveView {
    const second = this.#second(nowMs);
    return {
      total: { ...this.#total },
      firstByte: this.#times(),
      perSecond: this.#rate(nowMs, second),
      seconds: this.#seconds.upTo(second, SECONDS_SHOWN),
      buckets: this.#shownBuckets(nowMs),
      byKey: ranked(this.#byKey),
      byModel: ranked(this.#byModel),
      running: this.#running.newest(RUNNING_SHOWN),
      runningCount: this.#running.count,
      hasMoreRunning: this.#base.running.next !== null,
      last: this.#last,
      endings: this.#endings,
      isMissing: this.#isMissing,
    };
  }

  #begin(base: Base): void {
    this.#base = base;
    this.#total = tallyOf(base.series.totals);
    this.#buckets = new Map(base.series.rows?.map((row) => [Date.parse(row.from ?? ''), tallyOf(row)]));
    this.#byKey = new Map();
    this.#byModel = new Map();
    this.#firstBytes = Array.from({ length: BUCKETS }, () => 0);
    for (const row of base.groups.rows ?? []) {
      addTally(placeOf(this.#byKey, row.key ?? ''), tallyOf(row));
      addTally(placeOf(this.#byModel, row.model ?? ''), tallyOf(row));
    }
    for (const ending of this.#recent) this.#count(ending);
    // Also later: of those that run for long the list before may have had no room.
    const { running } = base;
    this.#running.join(
      running.data,
      this.#recent.filter(({ position }) => position > running.position),
    );
  }

  #beginCalls({ last }: Base): void {
    this.#lastFrom = last.position;
    const ended = last.data.filter(({ outcome }) => outcome !== 'running').map(lastCallOf);
    this.#last = ended
      .toSorted((one, other) => Date.parse(other.at) - Date.parse(one.at))
      .slice(0, LAST_SHOWN);
    for (const ending of this.#recent) this.#listLast(ending);
  }

  #count(ending: Ending): void {
    const { series, groups, bucketMs } = this.#base;
    if (ending.position > series.position) {
      countEnding(this.#total, ending);
      const atMs = Math.floor(Date.parse(ending.at) / bucketMs) * bucketMs;
      countEnding(placeOf(this.#buckets, atMs), ending);
      if (this.#buckets.size > BUCKETS_KEPT_MAX) this.#buckets.delete(Math.min(...this.#buckets.keys()));
      const firstByteMs = ending.type === 'settled' ? ending.first_byte_ms : undefined;
      if (firstByteMs !== undefined)
        this.#firstBytes[bucketOf(firstByteMs)] = (this.#firstBytes[bucketOf(firstByteMs)] ?? 0) + 1;
    }
    if (ending.position > groups.position) {
      countIn(this.#byKey, ending.key, ending);
      countIn(this.#byModel, ending.type === 'refused' ? '' : ending.model, ending);
    }
  }

  #listLast(ending: Ending): void {
    if (ending.position <= this.#lastFrom) return;
    this.#last = [lastCallOfFrame(ending), ...this.#last.slice(0, LAST_SHOWN - 1)];
  }

  #times(): LiveView['firstByte'] {
    const { first_byte_p50_ms: p50, first_byte_p95_ms: p95, requests } = this.#base.series.totals;
    const known: Known | null =
      p50 == null || p95 == null ? null : { count: requests, p50_ms: p50, p95_ms: p95 };
    const [half, most] = [
      mixedQuantile(known, this.#firstBytes, 0.5),
      mixedQuantile(known, this.#firstBytes, 0.95),
    ];
    return half === null || most === null ? null : { p50_ms: half, p95_ms: most };
  }

  #rate(nowMs: number, second: number): number | null {
    if (this.#liveSinceMs === null) return null;
    const seconds = Math.min(RATE_SECONDS, Math.floor((this.#serverMs(nowMs) - this.#liveSinceMs) / 1_000));
    if (seconds < 2) return null;
    // The second that is under way is not whole yet.
    const counts = this.#seconds.upTo(second - 1, seconds);
    return counts.reduce((sum, count) => sum + count, 0) / seconds;
  }

  #shownBuckets(nowMs: number): LiveView['buckets'] {
    const { bucketMs, buckets } = this.#base;
    const lastMs = Math.floor(this.#serverMs(nowMs) / bucketMs) * bucketMs;
    return Array.from({ length: buckets }, (_, index) => {
      const atMs = lastMs - (buckets - 1 - index) * bucketMs;
      const tally = this.#buckets.get(atMs);
      return { atMs, tally: tally ? { ...tally } : noTally() };
    });
  }

  #serverMs(nowMs: number): number {
    return nowMs - (Number.isFinite(this.#aheadMs) ? this.#aheadMs : 0);
  }

  #second(nowMs: number): number {
    return Math.floor(this.#serverMs(nowMs) / 1_000);
  }
}

function placeOf<Name>(tallies: Map<Name, Tally>, name: Name): Tally {
  let tally = tallies.get(name);
  if (!tally) tallies.set(name, (tally = noTally()));
  return tally;
}

/** Names beyond the bound are in the totals alone. */
function countIn(tallies: Map<string, Tally>, name: string, ending: Ending): void {
  if (tallies.has(name) || tallies.size < GROUPS_KEPT_MAX) countEnding(placeOf(tallies, name), ending);
}

function ranked(tallies: ReadonlyMap<string, Tally>): Ranking {
  const all = [...tallies].toSorted(
    ([one, few], [other, many]) => callsOf(many) - callsOf(few) || (one < other ? -1 : 1),
  );
  return {
    first: all.slice(0, GROUPS_SHOWN).map(([id, tally]) => ({ id, tally: { ...tally } })),
    count: all.length,
  };
}
