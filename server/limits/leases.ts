import type { LeaseLineResponse } from '#db/limits/leases.ts';
import type { SubjectLimits } from '#db/limits/limits.ts';
import { minuteOf, windowStart } from '#db/limits/windows.ts';
import {
  ASK_LINES_MAX,
  ENDED_KEPT_MINUTES,
  IDLE_SUBJECT_MS,
  PREFETCH_MS,
  REPORT_EVERY_MS,
} from '#server/limits/bounds.ts';
import { Counter } from '#server/limits/counter.ts';

/**
 * All leases of this instance, by the limits of accounts and keys and by their windows. Pure.
 *
 * A lease begins with the first call that needs it, or a little before its window does when its
 * account is busy. It ends with its window, or when nobody has called for a while and the store
 * has back what was left of it.
 */

/** The counters of one account's or key's limits in the windows of this moment. */
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
  /** Those that the store should hear of now. */
  readonly #pressed = new Set<Counter>();
  readonly #press = (counter: Counter): void => void this.#pressed.add(counter);
  #reportedMs = 0;

  /** Whether there is something to tell. */
  get isPressed(): boolean {
    return this.#pressed.size > 0;
  }

  /** The counters of these limits now. @param nowMs Postgres' time, in milliseconds since 1970. */
  of(limits: SubjectLimits, nowMs: number): readonly Counter[] {
    const known = this.#subjects.get(limits.subject);
    // A clock that was set back finds the windows of before.
    if (known && known.limits === limits && known.fromMs <= nowMs && nowMs < known.untilMs) {
      known.lastUseMs = nowMs;
      return known.counters;
    }
    const counters = this.#at(limits, minuteOf(nowMs));
    const fromMs = Math.max(0, ...counters.map(({ start }) => start)) * 60_000;
    const untilMs = Math.min(...counters.map(({ end }) => end)) * 60_000;
    // Limits that are no longer there give back what they had.
    if (known) for (const counter of known.counters) if (!counters.includes(counter)) counter.recall();
    this.#subjects.set(limits.subject, { limits, counters, fromMs, untilMs, lastUseMs: nowMs });
    return counters;
  }

  /** The counters that the store is told about now, those of the given calls and the pressing ones. */
  toReport(needed: Iterable<Counter>, nowMs: number): Counter[] {
    const reporting = new Set(needed);
    const minute = minuteOf(nowMs);
    for (const counter of this.#pressed) {
      // Nobody needs to hear of a window that is over.
      if (counter.end <= minute) this.#pressed.delete(counter);
      else if (reporting.size < ASK_LINES_MAX) reporting.add(counter);
    }
    for (const counter of reporting) this.#pressed.delete(counter);
    return [...reporting];
  }

  /** What the store said of one of them. */
  answered(counter: Counter, answer: LeaseLineResponse): void {
    counter.answered(answer);
    this.#byAllowance.set(answer.allowance, counter);
  }

  /** Another instance needs what is left over here. */
  recall(allowance: number): void {
    this.#byAllowance.get(allowance)?.recall();
  }

  /** Everything that is left over goes back. */
  recallAll(): void {
    for (const counter of this.#counters.values()) counter.recall();
  }

  /**
   * Once a second: windows that ended, those that begin next, reports that are due, idle subjects.
   * @param isAsking whether an answer is still to come, which may be about any of them.
   */
  tick(nowMs: number, isAsking: boolean): void {
    const minute = minuteOf(nowMs);
    for (const counter of this.#counters.values()) {
      counter.tick();
      // The clock was set back into a window that had been over.
      if (minute < counter.end) counter.returnSurplus();
      const isReplaced =
        counter.start <= minute && this.#subjects.get(counter.subject)?.counters.includes(counter) !== true;
      if (counter.end + ENDED_KEPT_MINUTES <= minute || (isReplaced && counter.isSettled && !isAsking))
        this.#forget(counter);
    }
    const isDue = Math.abs(nowMs - this.#reportedMs) >= REPORT_EVERY_MS;
    if (isDue) this.#reportedMs = nowMs;
    for (const [name, subject] of this.#subjects) {
      if (Math.abs(nowMs - subject.lastUseMs) > IDLE_SUBJECT_MS) {
        if (!isAsking) this.#letGo(name, subject);
        continue;
      }
      // What is charged to a minute is of no interest after it.
      if (isDue)
        for (const counter of subject.counters)
          if (counter.unreported && counter.window !== 'minute') counter.press();
      const aheadMs = subject.untilMs - nowMs;
      if (aheadMs > 0 && aheadMs <= PREFETCH_MS) this.#prefetch(subject);
    }
  }

  #at({ subject, limits, position }: SubjectLimits, minute: number): Counter[] {
    return limits.map((limit) => {
      const start = windowStart(limit.window, minute);
      const name = nameOf({ subject, meter: limit.meter, window: limit.window, start, reset: limit.reset });
      let counter = this.#counters.get(name);
      if (!counter) {
        counter = new Counter(subject, limit, start, position, this.#press);
        this.#counters.set(name, counter);
      }
      counter.setCap(limit.cap, position);
      return counter;
    });
  }

  /** Leases of the windows that begin next, so that nobody waits at their beginning. */
  #prefetch({ limits, untilMs, counters }: Subject): void {
    for (const next of this.#at(limits, minuteOf(untilMs))) {
      if (next.allowance !== null) continue;
      const now = counters.find(({ meter, window }) => meter === next.meter && window === next.window);
      next.demand = now?.demand ?? 0;
      next.lastTaken = now?.lastTaken ?? 0;
      next.press();
    }
  }

  /** Nobody has called for a while: what is here in stock may serve others. */
  #letGo(name: string, subject: Subject): void {
    for (const counter of subject.counters) if (counter.held === 0 && !counter.isSettled) counter.recall();
    if (!subject.counters.every((counter) => counter.isSettled)) return;
    this.#subjects.delete(name);
    for (const counter of subject.counters) this.#forget(counter);
  }

  #forget(counter: Counter): void {
    this.#counters.delete(nameOf(counter));
    if (counter.allowance !== null) this.#byAllowance.delete(counter.allowance);
  }
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
