import type { Corrections } from '#db/events/usage-events.ts';
import { isEnforced, type Limit, type SubjectLimits } from '#db/limits/limits.ts';
import {
  type Amounts,
  isByUsage,
  reservedAmount,
  unitsAbandoned,
  unitsCorrected,
  unitsReserved,
  unitsSettled,
  type Usage,
} from '#db/limits/meters.ts';
import { windowEnd, windowStart } from '#db/limits/windows.ts';
import { ENDED_KEPT_MINUTES } from '#server/limits/bounds.ts';
import type { CallNeed } from '#server/limits/waiting-call.ts';

/**
 * The allowances of a back-test: one for each limit of each subject in each window, decided one call after
 * the other. It is the rule that leases are exact by: a call is admitted if, and only if, free units cover
 * its need in every limit. Pure.
 */

/** One limit of one subject in one window. Minutes are UTC, since 1970. */
export type Allowance = {
  subject: string;
  limit: Limit;
  start: number;
  end: number;
  settled: number;
  held: number;
};

/** The allowances that an admitted call is charged to, and the units that it holds of each. */
export type Charged = {
  readonly allowances: readonly Allowance[];
  readonly units: number[];
  amounts: Amounts;
  /** The observed limits that would have rejected it, which it isn't charged to. */
  readonly observed: readonly Allowance[];
};

type Subject = {
  /** The terms that `current` is for, and the minutes: from the first, until before the second. */
  limits: readonly Limit[];
  from: number;
  until: number;
  current: readonly Allowance[];
  all: Allowance[];
};

/** Subjects whose windows are over are discarded from twice so many on. */
const SUBJECTS_FIRST = 1_000;
const NONE: readonly Allowance[] = [];

export class Allowances {
  readonly #subjects = new Map<string, Subject>();
  #kept = SUBJECTS_FIRST;

  /** The number of subjects with allowances. */
  get size(): number {
    return this.#subjects.size;
  }

  /** The allowances of a call at the minute of its admission. */
  of(subjects: readonly SubjectLimits[], minute: number): readonly Allowance[] {
    const [first] = subjects;
    if (first === undefined) return NONE;
    if (subjects.length === 1) return this.#current(first, minute);
    const all: Allowance[] = [];
    // Loops, because this is done for every call.
    for (const each of subjects) for (const allowance of this.#current(each, minute)) all.push(allowance);
    return all;
  }

  #current({ subject: name, limits }: SubjectLimits, minute: number): readonly Allowance[] {
    let subject = this.#subjects.get(name);
    if (subject?.limits === limits && minute >= subject.from && minute < subject.until)
      return subject.current;
    if (subject === undefined) {
      if (this.#subjects.size >= 2 * this.#kept) this.#discard(minute);
      subject = { limits, from: 0, until: 0, current: NONE, all: [] };
      this.#subjects.set(name, subject);
    }
    const all = subject.all.filter((each) => !isOver(each, minute));
    let [from, until] = [0, Infinity];
    subject.current = limits.map((limit) => {
      const start = windowStart(limit.window, minute);
      let allowance = all.find((each) => isOf(each, limit, start));
      if (allowance === undefined) {
        const end = windowEnd(limit.window, start);
        all.push((allowance = { subject: name, limit, start, end, settled: 0, held: 0 }));
      }
      allowance.limit = limit;
      from = Math.max(from, allowance.start);
      until = Math.min(until, allowance.end);
      return allowance;
    });
    Object.assign(subject, { limits, from, until, all });
    return subject.current;
  }

  /** Discards the subjects without a window that still counts. */
  #discard(minute: number): void {
    for (const [name, { all }] of this.#subjects)
      if (all.every((each) => isOver(each, minute) || isUnused(each))) this.#subjects.delete(name);
    this.#kept = Math.max(SUBJECTS_FIRST, this.#subjects.size);
  }

  /** Adds an adjustment to a window that is counted. @param start the first minute of the window. */
  adjust(
    name: string,
    { meter, window, reset }: Pick<Limit, 'meter' | 'window' | 'reset'>,
    start: number,
    amount: number,
  ) {
    const adjusted = this.#subjects
      .get(name)
      ?.all.find(
        (each) =>
          each.start === start &&
          each.limit.meter === meter &&
          each.limit.window === window &&
          each.limit.reset === reset,
      );
    if (adjusted) adjusted.settled += amount;
  }
}

const isOf = ({ limit, start }: Allowance, other: Limit, at: number): boolean =>
  start === at && limit.meter === other.meter && limit.window === other.window && limit.reset === other.reset;

/** Rejections are recorded a little later, and running calls keep their allowances themselves. */
const isOver = ({ end }: Allowance, minute: number): boolean => end + ENDED_KEPT_MINUTES <= minute;
const isUnused = ({ settled, held }: Allowance): boolean => settled === 0 && held === 0;

export const freeOf = ({ limit, settled, held }: Allowance): number => limit.cap - settled - held;

/**
 * Reserves the units of a call: of all enforced limits or of none, and of each observed one that has them.
 * @returns the enforced limits that are short of them, and nothing is reserved.
 */
export function reserve(allowances: readonly Allowance[], need: CallNeed): Charged | Allowance[] {
  let short = NONE;
  // Hardly any call is short of a limit.
  for (const each of allowances) if (lacks(each, need)) short = [...short, each];
  if (short.length > 0) {
    const rejecting = short.filter(isEnforcing);
    if (rejecting.length > 0) return rejecting;
  }
  const charged = short.length === 0 ? allowances : allowances.filter((each) => !short.includes(each));
  const { wanted } = need;
  const amounts = { tokens: wanted.tokens, cost: wanted.cost };
  const units: number[] = [];
  for (const each of charged) {
    const { meter } = each.limit;
    const wants = unitsReserved(meter, wanted);
    const granted = wants > 0 ? Math.min(wants, freeOf(each)) : 0;
    each.held += granted;
    const amount = reservedAmount(meter);
    if (amount !== null && isEnforcing(each)) amounts[amount] = Math.min(amounts[amount], granted);
    units.push(granted);
  }
  return { allowances: charged, units, amounts, observed: short };
}

const isEnforcing = ({ limit }: Allowance): boolean => isEnforced(limit);

function lacks(allowance: Allowance, { minimum, wanted }: CallNeed): boolean {
  const { meter } = allowance.limit;
  return unitsReserved(meter, wanted) > 0 && unitsReserved(meter, minimum) > freeOf(allowance);
}

/** Reserves the units of a call that was admitted, whether or not they are free. */
export function charge(allowances: readonly Allowance[], amounts: Amounts): Charged {
  const units = allowances.map((each) => {
    const reserved = unitsReserved(each.limit.meter, amounts);
    each.held += reserved;
    return reserved;
  });
  return { allowances, units, amounts: { ...amounts }, observed: NONE };
}

/**
 * Grows a reservation where every enforced limit of usage has the units, and of each observed limit that has
 * them; a window that is over isn't charged.
 */
export function grow(charged: Charged, more: Amounts, minute: number): void {
  const { allowances, units } = charged;
  const grows = ({ limit, end }: Allowance): boolean => isByUsage(limit.meter) && end > minute;
  const isShort = (each: Allowance): boolean => unitsReserved(each.limit.meter, more) > freeOf(each);
  if (allowances.some((each) => grows(each) && isEnforcing(each) && isShort(each))) return;
  for (const [index, each] of allowances.entries()) {
    if (!grows(each) || isShort(each)) continue;
    const added = unitsReserved(each.limit.meter, more);
    each.held += added;
    units[index] = (units[index] as number) + added;
  }
  charged.amounts = { tokens: charged.amounts.tokens + more.tokens, cost: charged.amounts.cost + more.cost };
}

/** Replaces the reservation of a call by its usage. */
export function settle({ allowances, units }: Charged, usage: Usage): void {
  for (let index = 0; index < allowances.length; index++) {
    const each = allowances[index] as Allowance;
    each.held -= units[index] as number;
    each.settled += unitsSettled(each.limit.meter, usage);
  }
}

/** Replaces the reservation of an abandoned call by the amounts that recovery charged. */
export function abandon({ allowances, units }: Charged, amounts: Amounts): void {
  for (const [index, each] of allowances.entries()) {
    each.held -= units[index] as number;
    each.settled += unitsAbandoned(each.limit.meter, amounts);
  }
}

/** Adds a correction to the windows of its call that aren't over. */
export function correct(allowances: readonly Allowance[], corrections: Corrections, minute: number): void {
  for (const each of allowances)
    if (each.end > minute) each.settled += unitsCorrected(each.limit.meter, corrections);
}
