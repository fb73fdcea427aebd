import {
  compareNames,
  type Grant,
  type LeaseLine,
  type LeaseLineResponse,
  type LeaseRequest,
  type LeaseResponse,
  type Need,
} from '#db/limits/leases.ts';
import type { SubjectLimits } from '#db/limits/limits.ts';
import { type Amounts, isByUsage, reservedAmount, returnsUnits, unitsReserved } from '#db/limits/meters.ts';
import { minuteOf } from '#db/limits/windows.ts';
import {
  EXHAUSTED_FOR_MS,
  LEASE_REQUEST_CALLS_MAX,
  LEASE_REQUEST_LINES_MAX,
  RECALL_WAIT_MS,
  SETTLING_WAIT_MS,
  STOCK_CALLS,
  WAITING_MAX,
} from '#server/limits/bounds.ts';
import type { Counter } from '#server/limits/counter.ts';
import { Leases } from '#server/limits/leases.ts';
import { Reservation } from '#server/limits/reservation.ts';

/**
 * Admits or rejects calls from the leases of one instance. Pure: the time and the lease responses
 * are arguments, so that a simulation can run it through any order of events.
 *
 * ## The lease scheme
 *
 * An allowance is one limit of one subject in one window; its units are kept in Postgres. An
 * instance leases some units in advance and admits calls from its lease without any I/O. Far from
 * the limit a lease is a stock for some seconds. Near the limit (`near`, within 5 % of the cap, with
 * hysteresis) Postgres grants only the units that a waiting call needs, and instances return
 * everything that no call has reserved. A rejection therefore means that all units are used or
 * reserved, not that another instance keeps them unused.
 *
 * ## States of a call
 *
 *     admit --+-- every lease has enough --------------------------------> admitted
 *             |-- a limit is known to be exhausted ----------------------> rejected (short)
 *             |-- too many calls are waiting ----------------------------> rejected (unavailable)
 *             `-- otherwise --> waiting
 *
 *     waiting ---- nextRequest --+-- the leases have enough by now ------> admitted
 *                                `-- otherwise --> requested
 *
 *     requested -- applyResponse --+-- all its needs are granted --------> admitted
 *                                  |-- units may still come back --> waiting (awaitsRecall)
 *                                  `-- otherwise ------------------------> rejected (short, undecided)
 *     requested -- requestFailed ----------------------------------------> rejected (unavailable)
 *
 * - *waiting*: the call is queued for the next lease request. It has reserved nothing.
 * - *requested*: the call is part of the lease request in flight. It has reserved what its other
 *   limits had available; the needs of those that were short are in the request. Postgres grants
 *   all of a call's needs or none.
 * - *waiting (awaitsRecall)*: the limit is short, but another instance may hold units that it does
 *   not need, or a call has just ended here. It is requested again after a pause, for a bounded
 *   time. The reservations of its other limits were released.
 *
 * A running call whose reservation grows passes through the same states ({@link AdmissionController.grow}).
 *
 * ## Invariants
 *
 * - At most one lease request is in flight ({@link AdmissionController.applyResponse} or
 *   {@link AdmissionController.requestFailed} ends it), so Postgres receives totals in order.
 * - Every call is decided exactly once.
 * - A counter is *strict* from the moment its limit is near until a response says otherwise. A
 *   strict counter admits nothing locally and returns all its free units with the next report.
 * - All grants of a response are reserved and all releases made before any call is decided: a
 *   decision may call back into this class.
 */

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

type Waiting = {
  subjects: readonly SubjectLimits[];
  need: CallNeed;
  /** The reservation that grows; null for a new call. */
  grows: Reservation | null;
  sinceMs: number;
  /** It was short of units that other instances may still return. */
  awaitsRecall: boolean;
  /** Of the request in flight: the minute of the windows, their counters, and the units reserved of each. */
  minute: number;
  counters: readonly Counter[];
  reserved: number[];
  decide: Decide;
};

const NOT_REQUESTED = { awaitsRecall: false, minute: 0, counters: [], reserved: [] };

/** A lease request in flight: a counter per line, and the calls that it carries. */
type InFlight = { counters: Counter[]; calls: Waiting[] };

export class AdmissionController {
  readonly leases: Leases;
  #waiting: Waiting[] = [];
  #inFlight: InFlight | null = null;

  constructor(leases: Leases = new Leases()) {
    this.leases = leases;
  }

  /** When the next lease request is due: now, after a pause for recalls, or not at all. */
  get urgency(): 'none' | 'after_pause' | 'now' {
    if (this.#inFlight) return 'none';
    if (this.leases.isReportDue || this.#waiting.some(({ awaitsRecall }) => !awaitsRecall)) return 'now';
    return this.#waiting.length > 0 ? 'after_pause' : 'none';
  }

  /** The counters in the lease request in flight. */
  get inFlight(): readonly Counter[] {
    return this.#inFlight?.counters ?? [];
  }

  /**
   * Admits a call, or queues it.
   * @param subjects whose limits it is charged to: its account, its key, its end user. Each occurs once.
   * @param nowMs Postgres' time, in milliseconds since 1970: it decides the windows.
   * @param decide called later with the outcome, when the return value is null.
   */
  admit(subjects: readonly SubjectLimits[], need: CallNeed, nowMs: number, decide: Decide): Outcome | null {
    if (this.leases.lacksPlace(subjects)) return { kind: 'unavailable' };
    const counters = this.countersOf(subjects, nowMs);
    const exhausted = counters.find((counter) => isExhausted(counter, need, nowMs));
    if (exhausted)
      return { kind: 'short', counter: exhausted, minimum: unitsReserved(exhausted.meter, need.minimum) };
    const reservation = reserveAll(counters, need.wanted, minuteOf(nowMs));
    if (reservation) return reservation;
    if (this.#waiting.length >= WAITING_MAX) return { kind: 'unavailable' };
    this.#waiting.push({ ...NOT_REQUESTED, subjects, need, grows: null, sinceMs: nowMs, decide });
    return null;
  }

  /**
   * Grows the reservation of a running call, in the meters that count its usage.
   * @returns true when it grew at once; false when `decide` is called with the reservation or a shortage.
   */
  grow(reservation: Reservation, more: Amounts, nowMs: number, decide: Decide): boolean {
    const counters = growing(reservation, nowMs);
    if (counters.every((counter) => unitsReserved(counter.meter, more) <= counter.free)) {
      for (const counter of counters) counter.reserve(unitsReserved(counter.meter, more));
      reservation.extend(counters, more);
      return true;
    }
    this.#waiting.push({
      ...NOT_REQUESTED,
      subjects: [],
      need: { minimum: more, wanted: more },
      grows: reservation,
      sinceMs: nowMs,
      decide,
    });
    return false;
  }

  /** Once a second. */
  tick(nowMs: number): void {
    this.leases.tick(nowMs, this.#inFlight !== null);
  }

  /**
   * The next lease request: all due reports, and the needs of waiting calls.
   * @param position the log position up to which the ends of calls are known here.
   * @returns null when there is nothing to request, or a request is in flight.
   */
  nextRequest(nowMs: number, position: number): LeaseRequest | null {
    if (this.#inFlight) return null;
    const calls = this.#decideLocally(nowMs);
    const counters = this.leases.takeDue(calls.flatMap(shortCounters), nowMs).toSorted(compareNames);
    if (counters.length === 0) return null;
    const lineOf = new Map(counters.map((counter, line) => [counter, line]));
    const useful = new Map<Counter, number>();
    const requests = calls.map((waiting) =>
      shortCounters(waiting).map((counter): Need => {
        const wanted = unitsReserved(counter.meter, waiting.need.wanted);
        useful.set(counter, (useful.get(counter) ?? 0) + wanted * STOCK_CALLS);
        return {
          line: lineOf.get(counter) as number,
          minimum: unitsReserved(counter.meter, waiting.need.minimum),
          wanted,
        };
      }),
    );
    const lines = counters.map((counter): LeaseLine => counter.report(useful.get(counter) ?? null));
    this.#inFlight = { counters, calls };
    return { position, lines, requests };
  }

  /** Applies the response to the request in flight, and decides its calls. */
  applyResponse(response: LeaseResponse, nowMs: number): void {
    const { counters, calls } = this.#endRequest();
    for (const [line, counter] of counters.entries())
      this.leases.applyResponse(counter, response.lines[line] as LeaseLineResponse);
    // All grants are reserved and all releases made before any call is decided: its caller may
    // start another call in between.
    const reservations = calls.map((waiting, index) => {
      const grant = response.requests[index] as Grant;
      if ('amounts' in grant) return admitted(waiting, grant.amounts);
      release(waiting.counters, waiting.reserved);
      return null;
    });
    const waitOn: Waiting[] = [];
    const decisions: (() => void)[] = [];
    for (const [index, waiting] of calls.entries()) {
      const reservation = reservations[index];
      const grant = response.requests[index] as Grant;
      if (reservation) decisions.push(() => waiting.decide(reservation));
      else if ('shortOf' in grant) {
        const counter = counters[grant.shortOf] as Counter;
        const line = response.lines[grant.shortOf] as LeaseLineResponse;
        const outcome = shortageOf(waiting, counter, line, nowMs);
        if (outcome) decisions.push(() => waiting.decide(outcome));
        else waitOn.push({ ...waiting, awaitsRecall: true });
      }
    }
    for (const counter of counters) counter.returnSurplus();
    this.#waiting.unshift(...waitOn);
    for (const decide of decisions) decide();
    this.leases.dropClosed(counters);
  }

  /** The request in flight may or may not have been applied. Its calls are rejected, its reports repeated. */
  requestFailed(): void {
    const { counters, calls } = this.#endRequest();
    for (const counter of counters) counter.reportSoon();
    for (const { counters: own, reserved, decide } of calls) {
      release(own, reserved);
      decide({ kind: 'unavailable' });
    }
  }

  /** Rejects all calls that wait and are not in the request in flight. */
  rejectWaiting(): void {
    for (const { decide } of this.#waiting.splice(0)) decide({ kind: 'unavailable' });
  }

  #endRequest(): InFlight {
    const inFlight = this.#inFlight ?? { counters: [], calls: [] };
    this.#inFlight = null;
    return inFlight;
  }

  /**
   * Admits the waiting calls that the leases have enough for by now. @returns the others, to be requested.
   */
  #decideLocally(nowMs: number): Waiting[] {
    const calls: Waiting[] = [];
    const decisions: (() => void)[] = [];
    const lines = new Set<Counter>();
    let next = 0;
    // A call of many subjects needs a line for each of their limits.
    while (next < LEASE_REQUEST_CALLS_MAX && lines.size < LEASE_REQUEST_LINES_MAX) {
      const each = this.#waiting[next];
      if (each === undefined) break;
      next++;
      each.minute = minuteOf(nowMs);
      each.counters = each.grows ? growing(each.grows, nowMs) : this.countersOf(each.subjects, nowMs);
      each.reserved = each.counters.map((counter) => {
        const wanted = unitsReserved(counter.meter, each.need.wanted);
        return !counter.strict && counter.reserve(wanted) ? wanted : 0;
      });
      const short = shortCounters(each);
      for (const counter of short) lines.add(counter);
      const reservation = short.length === 0 ? admitted(each, []) : null;
      if (reservation) decisions.push(() => each.decide(reservation));
      else calls.push(each);
    }
    this.#waiting.splice(0, next);
    for (const decide of decisions) decide();
    return calls;
  }

  /** The counters of these limits, in the windows of this moment. */
  countersOf(subjects: readonly SubjectLimits[], nowMs: number): readonly Counter[] {
    const [first] = subjects;
    if (!first) return [];
    const counters = this.leases.of(first, nowMs);
    if (subjects.length === 1) return counters;
    const all = [...counters];
    for (let index = 1; index < subjects.length; index++)
      for (const counter of this.leases.of(subjects[index] as SubjectLimits, nowMs)) all.push(counter);
    return all;
  }
}

/** Reserves the granted units for a call; the units of its other limits are reserved already. */
function admitted(waiting: Waiting, amounts: readonly number[]): Reservation {
  const { counters, reserved, need, grows, minute } = waiting;
  const short = shortCounters(waiting);
  const units = counters.map((counter, index) => {
    const granted = amounts[short.indexOf(counter)];
    if (granted === undefined) return reserved[index] as number;
    if (!counter.reserve(granted))
      throw new Error('assertion failed: the lease is smaller than the units granted for a call');
    return granted;
  });
  if (!grows) return new Reservation(counters, units, leastOf(counters, units, need.wanted), minute);
  if (grows.isOver) release(counters, units);
  else grows.extend(counters, need.wanted);
  return grows;
}

/** The shortage that a call is rejected with; null while units may still come back. */
function shortageOf(
  { need, grows, sinceMs }: Waiting,
  counter: Counter,
  line: LeaseLineResponse,
  nowMs: number,
): Shortage | null {
  const minimum = unitsReserved(counter.meter, need.minimum);
  const rejection: Shortage = { kind: 'short', counter, minimum };
  if (grows) return rejection;
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

function isExhausted(counter: Counter, need: CallNeed, nowMs: number): boolean {
  const { exhausted, meter } = counter;
  if (exhausted === null) return false;
  if (exhausted.fromMs <= nowMs && nowMs < exhausted.untilMs)
    return unitsReserved(meter, need.minimum) >= exhausted.minimum;
  counter.exhausted = null;
  return false;
}

function reserveAll(counters: readonly Counter[], wanted: Amounts, minute: number): Reservation | null {
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
function shortCounters({ counters, reserved, need }: Waiting): Counter[] {
  return counters.filter(
    (counter, index) => reserved[index] === 0 && unitsReserved(counter.meter, need.wanted) > 0,
  );
}

/** The counters of a reservation that can grow: those that count usage, of windows that have not ended. */
function growing(reservation: Reservation, nowMs: number): Counter[] {
  const minute = minuteOf(nowMs);
  return reservation.counters.filter(({ meter, end }) => isByUsage(meter) && end > minute);
}

function release(counters: readonly Counter[], units: readonly number[]): void {
  for (const [index, counter] of counters.entries()) if (units[index]) counter.release(units[index]);
}
