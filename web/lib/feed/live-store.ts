import { BUCKETS, bucketOf } from '#db/projections/buckets.ts';
import type { Frame, LiveMessage } from '#server/contract/frames.ts';
import type { RequestPage } from '#server/contract/requests.ts';
import type { UsageReport } from '#server/contract/usage.ts';
import { type RecentRequest, recentRequestOf, recentRequestOfFrame } from './recent-requests.ts';
import { type Known, mixedQuantile } from './mixed-quantile.ts';
import { type RunningRequest, RunningRequests } from './running-requests.ts';
import { SecondsRing } from './seconds-ring.ts';
import {
  addTally,
  type Counted,
  requestCountOf,
  countEnding,
  type Ending,
  noTally,
  type Tally,
  tallyOf,
} from './tally.ts';

/** The initial figures from the projections, each with its own position. */
export type Base = {
  /** By time bucket. */
  series: UsageReport;
  /** By key and model. */
  groups: UsageReport;
  /** The newest and the running requests. */
  last: RequestPage;
  running: RequestPage;
  bucketMs: number;
  /** The number of buckets shown, including the current one. */
  buckets: number;
};

export type Group = { id: string; tally: Tally };
/** The groups with the most requests, and the number of groups. */
export type Ranking = { first: readonly Group[]; count: number };
export type LiveView = {
  total: Tally;
  /** Time to first token. */
  firstByte: { p50_ms: number; p95_ms: number } | null;
  /** Requests per second over the last ten seconds; null until enough data was received. */
  perSecond: number | null;
  /** Requests in each of the last sixty seconds. */
  seconds: readonly number[];
  buckets: readonly { atMs: number; tally: Tally }[];
  byKey: Ranking;
  byModel: Ranking;
  running: readonly RunningRequest[];
  runningCount: number;
  /** Whether more requests run than are counted. */
  hasMoreRunning: boolean;
  last: readonly RecentRequest[];
  /** Ended requests since the page was opened. */
  endings: number;
  /** The feed had a gap: figures are too low until refetched. */
  isMissing: boolean;
};

const SECONDS_SHOWN = 60;
const SECONDS_KEPT = 120;
const RATE_SECONDS = 10;
const RUNNING_SHOWN = 100;
const LAST_SHOWN = 10;
const GROUPS_SHOWN = 6;
/** The maximum lag of a base behind the feed, in ended requests. */
const RECENT_MAX = 5_000;
const BUCKETS_KEPT_MAX = 900;
const GROUPS_KEPT_MAX = 4_000;

/** The position from which the feed must continue. */
export const positionOf = ({ series, groups, last, running }: Base): number =>
  Math.min(series.position, groups.position, last.position, running.position);

/**
 * Projected figures, continued by the live feed. Each ended request is counted once. All state is bounded.
 * The newest frames are kept, so that a newer base can replace the current one: frames after its position are
 * counted again on top.
 */
export class LiveStore {
  #base: Base;
  /** The newest frames; complete above `#knownFrom`. */
  #recent: Counted[] = [];
  #knownFrom: number;
  #seen: number;
  #endings = 0;
  #isMissing = false;
  /** The smallest observed offset of this clock from the server's, including latency. */
  #aheadMs = Infinity;
  #liveSinceMs: number | null = null;
  #total: Tally = noTally();
  #buckets = new Map<number, Tally>();
  #byKey = new Map<string, Tally>();
  #byModel = new Map<string, Tally>();
  #firstBytes: number[] = [];
  #last: RecentRequest[] = [];
  /** The position of the initial list. A later base does not replace it. */
  #lastFrom = 0;
  readonly #running = new RunningRequests();
  readonly #seconds = new SecondsRing(SECONDS_KEPT);

  constructor(base: Base) {
    this.#base = base;
    this.#knownFrom = this.#seen = positionOf(base);
    this.#begin(base);
    this.#beginCalls(base);
  }

  /**
   * Replaces the base.
   * @returns false if the new base is too old; the current one is kept.
   */
  rebase(base: Base): boolean {
    if (positionOf(base) < this.#knownFrom) return false;
    this.#begin(base);
    if (this.#isMissing) this.#beginCalls(base);
    this.#isMissing = false;
    return true;
  }

  /** Applies a message. @param nowMs this clock's time. */
  apply({ frames, at }: LiveMessage, nowMs: number): void {
    this.#aheadMs = Math.min(this.#aheadMs, nowMs - Date.parse(at));
    this.#liveSinceMs ??= this.#serverMs(nowMs);
    for (const frame of frames) this.#applyFrame(frame);
    if (this.#recent.length > 2 * RECENT_MAX) this.#forget();
  }

  #applyFrame(frame: Frame): void {
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
      case 'corrected':
        // Another part of the page may have reopened the feed at an earlier position.
        if (frame.position <= this.#seen) return;
        this.#seen = frame.position;
        if (frame.type === 'started') this.#running.started(frame);
        else if (frame.type === 'corrected') this.#correct(frame);
        else this.#end(frame);
        return;
      default:
      // Quota and notice frames are not used here.
    }
  }

  #correct(frame: Counted): void {
    this.#recent.push(frame);
    this.#count(frame);
  }

  #end(frame: Ending): void {
    this.#endings += 1;
    this.#recent.push(frame);
    this.#running.ended(frame.request);
    this.#count(frame);
    this.#listLast(frame);
    this.#seconds.add(
      Math.floor(Date.parse(frame.at) / 1_000),
      frame.type === 'refused' ? frame.rejected_count : 1,
    );
  }

  #forget(): void {
    const gone = this.#recent.splice(0, this.#recent.length - RECENT_MAX);
    this.#knownFrom = gone.at(-1)?.position ?? this.#knownFrom;
  }

  /** Whether the per-second figures still change without new frames. @param nowMs this clock's time. */
  isMoving(nowMs: number): boolean {
    return this.#seconds.upTo(this.#second(nowMs), SECONDS_SHOWN + 1).some((count) => count > 0);
  }

  /** The current view. @param nowMs this clock's time. */
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
      addTally(tallyFor(this.#byKey, row.key ?? ''), tallyOf(row));
      addTally(tallyFor(this.#byModel, row.model ?? ''), tallyOf(row));
    }
    for (const ending of this.#recent) this.#count(ending);
    // Also for later bases: the previous list may not have included all running requests.
    const { running } = base;
    this.#running.join(
      running.data,
      this.#recent.filter(isEnding).filter(({ position }) => position > running.position),
    );
  }

  #beginCalls({ last }: Base): void {
    this.#lastFrom = last.position;
    const ended = last.data.filter(({ outcome }) => outcome !== 'running').map(recentRequestOf);
    this.#last = ended
      .toSorted((one, other) => Date.parse(other.at) - Date.parse(one.at))
      .slice(0, LAST_SHOWN);
    for (const ending of this.#recent.filter(isEnding)) this.#listLast(ending);
  }

  #count(ending: Counted): void {
    const { series, groups, bucketMs } = this.#base;
    if (ending.position > series.position) {
      countEnding(this.#total, ending);
      const atMs = Math.floor(Date.parse(ending.at) / bucketMs) * bucketMs;
      countEnding(tallyFor(this.#buckets, atMs), ending);
      if (this.#buckets.size > BUCKETS_KEPT_MAX) this.#buckets.delete(Math.min(...this.#buckets.keys()));
      const firstByteMs = ending.type === 'settled' ? ending.first_byte_ms : undefined;
      if (firstByteMs !== undefined)
        this.#firstBytes[bucketOf(firstByteMs)] = (this.#firstBytes[bucketOf(firstByteMs)] ?? 0) + 1;
    }
    if (ending.position > groups.position) {
      countIn(this.#byKey, ending.key, ending);
      countIn(this.#byModel, ending.model ?? '', ending);
    }
  }

  #listLast(ending: Ending): void {
    if (ending.position <= this.#lastFrom) return;
    this.#last = [recentRequestOfFrame(ending), ...this.#last.slice(0, LAST_SHOWN - 1)];
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
    // The current second is incomplete.
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

const isEnding = (frame: Counted): frame is Ending => frame.type !== 'corrected';

function tallyFor<Name>(tallies: Map<Name, Tally>, name: Name): Tally {
  let tally = tallies.get(name);
  if (!tally) tallies.set(name, (tally = noTally()));
  return tally;
}

/** Names beyond the bound are only counted in the totals. */
function countIn(tallies: Map<string, Tally>, name: string, ending: Counted): void {
  if (tallies.has(name) || tallies.size < GROUPS_KEPT_MAX) countEnding(tallyFor(tallies, name), ending);
}

function ranked(tallies: ReadonlyMap<string, Tally>): Ranking {
  const all = [...tallies].toSorted(
    ([one, few], [other, many]) => requestCountOf(many) - requestCountOf(few) || (one < other ? -1 : 1),
  );
  return {
    first: all.slice(0, GROUPS_SHOWN).map(([id, tally]) => ({ id, tally: { ...tally } })),
    count: all.length,
  };
}
