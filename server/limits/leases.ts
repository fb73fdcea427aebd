import type { LeaseLineResponse } from '#db/limits/leases.ts';
import { isEnforced, type SubjectLimits } from '#db/limits/limits.ts';
import { minuteOf, windowStart } from '#db/limits/windows.ts';
import {
  ENDED_KEPT_MINUTES,
  LEASE_REQUEST_LINES_MAX,
  PREFETCH_MS,
  REPORT_EVERY_MS,
  SUBJECT_IDLE_MS,
  SUBJECT_IDLE_MS_MIN,
  SUBJECTS_MAX,
  SUBJECTS_USUAL,
} from '#server/limits/bounds.ts';
import { Counter } from '#server/limits/counter.ts';

/**
 * All leases of this instance, by subject, limit and window. Pure.
 *
 * A lease begins with the first call that needs it, or shortly before its window if its subject is
 * busy. It ends with its window, or when its subject has been idle and its units were returned. The more
 * subjects there are, the sooner one counts as idle, so that memory is bounded with any number of end users.
 */

/** The counters of a subject's limits in the current windows. */
type Subject = {
  limits: SubjectLimits;
  counters: Counter[];
  fromMs: number;
  untilMs: number;
  lastUseMs: number;
};

export class Leases {
  readonly #subjects = new Map<string, Subject>();
  readonly #counters = new Map<string, Counter>();
  readonly #byAllowance = new Map<number, Counter>();
  /** The counters whose report is due. */
  readonly #due = new Set<Counter>();
  /** Those near their limit: calls of other instances may be waiting for their units. */
  readonly #urgent = new Set<Counter>();
  readonly #onReportDue = (counter: Counter): void => {
    if (counter.strict) {
      this.#due.delete(counter);
      this.#urgent.add(counter);
    } else if (!this.#urgent.has(counter)) this.#due.add(counter);
  };
  readonly #idleMs: number;
  #reportedMs = 0;

  /** @param idleMs how long a subject's leases are kept without a call, where there are not very many. */
  constructor(idleMs: number = SUBJECT_IDLE_MS) {
    this.#idleMs = idleMs;
  }

  /** The subjects with counters. */
  get subjects(): number {
    return this.#subjects.size;
  }

  /**
   * The limits that there is place for counters of: all of them, or those but new subjects' that are only
   * observed; null where there is no place for enforced ones.
   */
  withPlace(limits: readonly SubjectLimits[]): readonly SubjectLimits[] | null {
    if (this.#subjects.size < SUBJECTS_MAX) return limits;
    const placed = limits.filter(
      ({ subject, limits: own }) => this.#subjects.has(subject) || own.some(isEnforced),
    );
    return placed.every(({ subject }) => this.#subjects.has(subject)) ? placed : null;
  }

  /** Whether a report should be sent now. */
  get isReportDue(): boolean {
    return this.#due.size > 0 || this.#urgent.size > 0;
  }

  /** The counters of these limits now. @param nowMs Postgres' time, in milliseconds since 1970. */
  of(limits: SubjectLimits, nowMs: number): readonly Counter[] {
    const known = this.#subjects.get(limits.subject);
    // A clock that was set back finds the windows of before.
    if (known && isSame(known.limits, limits) && known.fromMs <= nowMs && nowMs < known.untilMs) {
      known.lastUseMs = nowMs;
      return known.counters;
    }
    const counters = this.#at(limits, minuteOf(nowMs));
    const fromMs = Math.max(0, ...counters.map(({ start }) => start)) * 60_000;
    const untilMs = Math.min(...counters.map(({ end }) => end)) * 60_000;
    // Limits that were removed return their units.
    if (known) for (const counter of known.counters) if (!counters.includes(counter)) counter.recall();
    this.#subjects.set(limits.subject, { limits, counters, fromMs, untilMs, lastUseMs: nowMs });
    return counters;
  }

  /**
   * Takes the counters for the next lease request: the needed ones, then those near their limit, and then
   * others whose report is due. There is place for as many of the last as of the first two together, so that
   * leases end as fast as they begin.
   */
  takeDue(needed: Iterable<Counter>, nowMs: number): Counter[] {
    const reporting = new Set(needed);
    const minute = minuteOf(nowMs);
    moveDue(this.#urgent, reporting, reporting.size + LEASE_REQUEST_LINES_MAX, minute);
    moveDue(this.#due, reporting, Math.max(LEASE_REQUEST_LINES_MAX, 2 * reporting.size), minute);
    return [...reporting];
  }

  /** Applies the line of a lease response to its counter. */
  applyResponse(counter: Counter, line: LeaseLineResponse): void {
    counter.applyResponse(line);
    this.#byAllowance.set(line.allowance, counter);
  }

  /** Drops the subjects of these counters that are closed. No lease request is in flight. */
  dropClosed(counters: readonly Counter[]): void {
    for (const counter of counters) {
      if (!counter.isClosed) continue;
      const subject = this.#subjects.get(counter.subject);
      if (subject?.counters.every(({ isClosed }) => isClosed)) this.#dropSubject(counter.subject, subject);
    }
  }

  /** Another instance needs the free units of this lease. */
  recall(allowance: number): void {
    this.#byAllowance.get(allowance)?.recall();
  }

  /** Units of this allowance were given back by a correction. */
  adjusted(allowance: number): void {
    this.#byAllowance.get(allowance)?.reportSoon();
  }

  /** The usage of this subject was adjusted: its exhausted limits may have free units. */
  usageAdjusted(subject: string): void {
    for (const counter of this.#subjects.get(subject)?.counters ?? []) counter.reportSoon();
  }

  /** Returns all free units. */
  recallAll(): void {
    for (const counter of this.#counters.values()) counter.recall();
  }

  /**
   * Once a second: drops ended windows, prefetches the next ones, makes reports due, releases idle subjects.
   * @param isInFlight whether a lease request is in flight, whose response may concern any of them.
   */
  tick(nowMs: number, isInFlight: boolean): void {
    const minute = minuteOf(nowMs);
    for (const counter of this.#counters.values()) {
      counter.tick();
      // The clock was set back into a window that had been over.
      if (minute < counter.end) counter.returnSurplus();
      const isReplaced =
        counter.start <= minute && this.#subjects.get(counter.subject)?.counters.includes(counter) !== true;
      if (counter.end + ENDED_KEPT_MINUTES <= minute || (isReplaced && counter.isSettled && !isInFlight))
        this.#drop(counter);
    }
    const idleMs = this.#idleNowMs();
    const isDue = Math.abs(nowMs - this.#reportedMs) >= REPORT_EVERY_MS;
    if (isDue) this.#reportedMs = nowMs;
    for (const [name, subject] of this.#subjects) {
      if (Math.abs(nowMs - subject.lastUseMs) > idleMs) {
        if (!isInFlight) this.#releaseIdle(name, subject);
        continue;
      }
      // Usage of a minute does not matter once the minute is over.
      if (isDue)
        for (const counter of subject.counters)
          if (counter.unreported && counter.window !== 'minute') counter.reportSoon();
      const aheadMs = subject.untilMs - nowMs;
      if (aheadMs > 0 && aheadMs <= PREFETCH_MS) this.#prefetch(subject);
    }
  }

  /** How long a subject's leases are kept without a call, now. */
  #idleNowMs(): number {
    const excess = (this.#subjects.size - SUBJECTS_USUAL / 2) / (SUBJECTS_USUAL / 2);
    if (excess <= 0) return this.#idleMs;
    return Math.max(SUBJECT_IDLE_MS_MIN, this.#idleMs * (1 - excess));
  }

  #at({ subject, limits, position }: SubjectLimits, minute: number): Counter[] {
    return limits.map((limit) => {
      const start = windowStart(limit.window, minute);
      const name = nameOf({ subject, meter: limit.meter, window: limit.window, start, reset: limit.reset });
      let counter = this.#counters.get(name);
      if (!counter) {
        counter = new Counter(subject, limit, start, position, this.#onReportDue);
        this.#counters.set(name, counter);
      }
      counter.setCap(limit.cap, position);
      return counter;
    });
  }

  /** Requests the leases of the next windows, so that no call waits at their beginning. */
  #prefetch({ limits, untilMs, counters }: Subject): void {
    for (const next of this.#at(limits, minuteOf(untilMs))) {
      if (next.allowance !== null) continue;
      const now = counters.find(({ meter, window }) => meter === next.meter && window === next.window);
      next.demand = now?.demand ?? 0;
      next.lastReserved = now?.lastReserved ?? 0;
      next.reportSoon();
    }
  }

  /** Closes the leases of an idle subject, and drops them once that is reported. */
  #releaseIdle(name: string, subject: Subject): void {
    for (const counter of subject.counters)
      if (counter.held === 0 && counter.reservations === 0) counter.close();
    if (subject.counters.every(({ isClosed }) => isClosed)) this.#dropSubject(name, subject);
  }

  #dropSubject(name: string, { counters }: Subject): void {
    this.#subjects.delete(name);
    for (const counter of counters) this.#drop(counter);
  }

  #drop(counter: Counter): void {
    this.#counters.delete(nameOf(counter));
    if (counter.allowance !== null) this.#byAllowance.delete(counter.allowance);
  }
}

/** Moves counters from those whose report is due, the longest first, until so many are reporting. */
function moveDue(due: Set<Counter>, reporting: Set<Counter>, most: number, minute: number): void {
  for (const counter of reporting) due.delete(counter);
  for (const counter of due) {
    if (reporting.size >= most) break;
    due.delete(counter);
    // A window that has ended needs no report.
    if (counter.end > minute) reporting.add(counter);
  }
}

/** Whether they are the same version of a subject's limits. */
function isSame(one: SubjectLimits, other: SubjectLimits): boolean {
  return one.limits === other.limits && one.position === other.position;
}

function nameOf({
  subject,
  meter,
  window,
  start,
  reset,
}: Pick<Counter, 'subject' | 'meter' | 'window' | 'start' | 'reset'>): string {
  return `${subject} ${meter} ${window} ${start} ${reset}`;
}
