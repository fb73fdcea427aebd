import type { LeaseLineResponse } from '#db/limits/leases.ts';
import type { Limit, SubjectLimits } from '#db/limits/limits.ts';
import { type Amounts, isByUsage, reservedAmount, returnsUnits, unitsReserved } from '#db/limits/meters.ts';
import { minuteOf } from '#db/limits/windows.ts';
import { EXHAUSTED_FOR_MS, RECALL_WAIT_MS, SETTLING_WAIT_MS } from '#server/limits/bounds.ts';
import type { Counter } from '#server/limits/counter.ts';
import { Reservation } from '#server/limits/reservation.ts';

/** A call that its limits decide, as admission-controller.ts describes. Pure. */

/** The amounts that a call needs at least, and those that it would like. */
export type CallNeed = { minimum: Amounts; wanted: Amounts };

/** Why a call was not admitted. */
export type Shortage =
  | { kind: 'short'; counter: Counter; minimum: number }
  /** Units of the limit are with an instance that does not respond. */
  | { kind: 'undecided' }
  /** Postgres does not respond, or too many calls wait for it. */
  | { kind: 'unavailable' };

export type Outcome = Reservation | Shortage;
export type Decide = (outcome: Outcome) => void;

/** The limits that decide: all or the enforced ones of a call, an observed one, or a growing call's. */
export type Scope =
  | { kind: 'all' | 'enforced'; subjects: readonly SubjectLimits[] }
  | { kind: 'observed'; of: SubjectLimits; limit: Limit; atMs: number }
  | { kind: 'growth'; reservation: Reservation };

export type Waiting = {
  scope: Scope;
  need: CallNeed;
  sinceMs: number;
  /** It was short of units that other instances may still return. */
  awaitsRecall: boolean;
  /** Of the request in flight: the minute of the windows, their counters, and the units reserved of each. */
  minute: number;
  counters: readonly Counter[];
  reserved: number[];
  decide: Decide;
};

export const NOT_REQUESTED = { awaitsRecall: false, minute: 0, counters: [], reserved: [] };

/** Reserves the granted units for a call; the units of its other limits are reserved already. */
export function admitted(waiting: Waiting, amounts: readonly number[]): Reservation {
  const { counters, reserved, need, scope, minute } = waiting;
  const short = shortCounters(waiting);
  const units = counters.map((counter, index) => {
    const granted = amounts[short.indexOf(counter)];
    if (granted === undefined) return reserved[index] as number;
    if (!counter.reserve(granted))
      throw new Error('assertion failed: the lease is smaller than the units granted for a call');
    return granted;
  });
  if (scope.kind !== 'growth')
    return new Reservation(counters, units, leastOf(counters, units, need.wanted), minute);
  const { reservation: grows } = scope;
  if (grows.isOver) release(counters, units);
  else grows.extend(counters, need.wanted);
  return grows;
}

/** The shortage that a call is rejected with; null while units may still come back. */
export function shortageOf(
  { need, scope, sinceMs }: Waiting,
  counter: Counter,
  line: LeaseLineResponse,
  nowMs: number,
): Shortage | null {
  const minimum = unitsReserved(counter.meter, need.minimum);
  const rejection: Shortage = { kind: 'short', counter, minimum };
  if (scope.kind === 'growth') return rejection;
  // Units that were released here meanwhile may be enough together with those in Postgres.
  const isOurs = counter.free > 0;
  // Where even all unused units would not be enough, there is nothing to wait for.
  if ((line.recallable || isOurs) && minimum <= line.cap - line.used) {
    if (Math.abs(nowMs - sinceMs) >= RECALL_WAIT_MS) return { kind: 'undecided' };
    if (isOurs) counter.recall();
    return null;
  }
  // The unused units of a reply that has just ended are free once its end is in the log: a client
  // that waited for the reply calls again sooner than that.
  const isComingBack =
    returnsUnits(counter.meter) && counter.reported.leased > 0 && minimum <= line.cap - line.used;
  if (isComingBack && Math.abs(nowMs - sinceMs) < SETTLING_WAIT_MS) return null;
  // With no units leased by any instance, none can come back before the window ends.
  const isFinal = counter.reported.leased <= 0 && counter.held === 0 && counter.window !== 'none';
  counter.exhausted = {
    minimum,
    fromMs: nowMs,
    untilMs: isFinal ? counter.end * 60_000 : nowMs + EXHAUSTED_FOR_MS,
  };
  return rejection;
}

export function isExhausted(counter: Counter, need: CallNeed, nowMs: number): boolean {
  const { exhausted, meter } = counter;
  if (exhausted === null) return false;
  if (exhausted.fromMs <= nowMs && nowMs < exhausted.untilMs)
    return unitsReserved(meter, need.minimum) >= exhausted.minimum;
  counter.exhausted = null;
  return false;
}

export function reserveAll(
  counters: readonly Counter[],
  wanted: Amounts,
  minute: number,
): Reservation | null {
  for (const counter of counters) {
    if (counter.strict || unitsReserved(counter.meter, wanted) > counter.free) return null;
  }
  const reserved = counters.map((counter) => {
    const units = unitsReserved(counter.meter, wanted);
    counter.reserve(units);
    return units;
  });
  return new Reservation(counters, reserved, wanted, minute);
}

/** The amounts that a call may use: those that it wanted, or less where a limit granted less. */
function leastOf(counters: readonly Counter[], reserved: readonly number[], wanted: Amounts): Amounts {
  const least = { ...wanted };
  for (const [index, counter] of counters.entries()) {
    const amount = reservedAmount(counter.meter);
    if (amount !== null) least[amount] = Math.min(least[amount], reserved[index] as number);
  }
  return least;
}

/** Those that had too few free units for a call. */
export function shortCounters({ counters, reserved, need }: Waiting): Counter[] {
  return counters.filter(
    (counter, index) => reserved[index] === 0 && unitsReserved(counter.meter, need.wanted) > 0,
  );
}

/** The counters of a reservation that can grow: those that count usage, of windows that have not ended. */
export function growing(reservation: Reservation, nowMs: number): Counter[] {
  const minute = minuteOf(nowMs);
  return reservation.counters.filter(({ meter, end }) => isByUsage(meter) && end > minute);
}

export function release(counters: readonly Counter[], units: readonly number[]): void {
  for (const [index, counter] of counters.entries()) if (units[index]) counter.release(units[index]);
}
