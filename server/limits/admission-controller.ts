import {
  compareNames,
  type Grant,
  type LeaseLine,
  type LeaseLineResponse,
  type LeaseRequest,
  type LeaseResponse,
  type Need,
} from '#db/limits/leases.ts';
import { isEnforced, type Limit, type SubjectLimits } from '#db/limits/limits.ts';
import { type Amounts, unitsReserved } from '#db/limits/meters.ts';
import { minuteOf } from '#db/limits/windows.ts';
import {
  LEASE_REQUEST_CALLS_MAX,
  LEASE_REQUEST_LINES_MAX,
  STOCK_CALLS,
  WAITING_MAX,
} from '#server/limits/bounds.ts';
import type { Counter } from '#server/limits/counter.ts';
import { Leases } from '#server/limits/leases.ts';
import { ObservedAdmission, type ObservedLimit } from '#server/limits/observed-admission.ts';
import type { Reservation } from '#server/limits/reservation.ts';
import {
  admitted,
  type CallNeed,
  type Decide,
  growing,
  isExhausted,
  NOT_REQUESTED,
  type Outcome,
  release,
  reserveAll,
  type Scope,
  shortageOf,
  shortCounters,
  type Waiting,
} from '#server/limits/waiting-call.ts';

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
 * A call with observed limits passes through these states by its enforced ones, and then by each observed one
 * apart ({@link ObservedAdmission}).
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
    const charged = this.leases.withPlace(subjects);
    if (charged === null) return { kind: 'unavailable' };
    if (subjects.some(isObserving)) return this.#admitObserved(subjects, charged, need, nowMs, decide);
    const counters = this.countersOf(charged, nowMs);
    return (
      decideAtOnce(counters, need, nowMs) ??
      this.#wait({ kind: 'all', subjects: charged }, need, nowMs, decide)
    );
  }

  /**
   * The same for a call with observed limits. Each of those decides on its own, as if for a call of its own.
   * @param placed those of its subjects that there is place for.
   */
  #admitObserved(
    subjects: readonly SubjectLimits[],
    placed: readonly SubjectLimits[],
    need: CallNeed,
    nowMs: number,
    decide: Decide,
  ): Outcome | null {
    const admitBy = (scope: Scope, later: Decide): Outcome | null =>
      decideAtOnce(this.#countersIn(scope, nowMs), need, nowMs) ?? this.#wait(scope, need, nowMs, later);
    const admission = new ObservedAdmission({
      need,
      limits: observedOf(placed),
      undecided: observedOf(subjects.filter((subject) => !placed.includes(subject))),
      judge: ({ of, limit }, atMs, later) => admitBy({ kind: 'observed', of, limit, atMs }, later),
      decide,
    });
    return admission.begin(nowMs, (later) => admitBy({ kind: 'enforced', subjects: placed }, later));
  }

  #wait(scope: Scope, need: CallNeed, sinceMs: number, decide: Decide): Outcome | null {
    if (this.#waiting.length >= WAITING_MAX) return { kind: 'unavailable' };
    this.#waiting.push({ ...NOT_REQUESTED, scope, need, sinceMs, decide });
    return null;
  }

  /**
   * Grows the reservation of a running call, in the meters that count its usage.
   * @returns true when it grew at once; false when `decide` is called with the reservation or a shortage.
   */
  grow(reservation: Reservation, more: Amounts, nowMs: number, decide: Decide): boolean {
    const { observed } = reservation;
    if (observed.length === 0) return this.#grow(reservation, more, nowMs, decide);
    // An observed limit that can't grow with the call changes nothing for it.
    const growObserved = (): void => {
      for (const part of observed) this.#grow(part, more, nowMs, () => {});
    };
    const isGrown = this.#grow(reservation, more, nowMs, (outcome) => {
      if (outcome === reservation && !reservation.isOver) growObserved();
      decide(outcome);
    });
    if (isGrown) growObserved();
    return isGrown;
  }

  #grow(reservation: Reservation, more: Amounts, nowMs: number, decide: Decide): boolean {
    const counters = growing(reservation, nowMs);
    if (counters.every((counter) => unitsReserved(counter.meter, more) <= counter.free)) {
      for (const counter of counters) counter.reserve(unitsReserved(counter.meter, more));
      reservation.extend(counters, more);
      return true;
    }
    const need = { minimum: more, wanted: more };
    this.#waiting.push({
      ...NOT_REQUESTED,
      scope: { kind: 'growth', reservation },
      need,
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
      each.counters = this.#countersIn(each.scope, nowMs);
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

  #countersIn(scope: Scope, nowMs: number): readonly Counter[] {
    switch (scope.kind) {
      case 'all':
        return this.countersOf(scope.subjects, nowMs);
      case 'enforced':
        return scope.subjects.flatMap((subject) => {
          const counters = this.leases.of(subject, nowMs);
          return counters.filter((_, index) => isEnforced(subject.limits[index] as Limit));
        });
      case 'observed': {
        const { of, limit, atMs } = scope;
        return [this.leases.of(of, atMs)[of.limits.indexOf(limit)] as Counter];
      }
      case 'growth':
        return growing(scope.reservation, nowMs);
    }
  }
}

const observedOf = (subjects: readonly SubjectLimits[]): ObservedLimit[] =>
  subjects.flatMap((of) => of.limits.flatMap((limit) => (isEnforced(limit) ? [] : [{ of, limit }])));

const isObserving = ({ limits }: SubjectLimits): boolean => !limits.every(isEnforced);

/** Decides a call by the leases alone; null where they don't have enough. */
function decideAtOnce(counters: readonly Counter[], need: CallNeed, nowMs: number): Outcome | null {
  const exhausted = counters.find((counter) => isExhausted(counter, need, nowMs));
  if (exhausted)
    return { kind: 'short', counter: exhausted, minimum: unitsReserved(exhausted.meter, need.minimum) };
  return reserveAll(counters, need.wanted, minuteOf(nowMs));
}
