import {
  type LeaseResponse,
  type LeaseRequest,
  compareNames,
  type Given,
  type LeaseLine,
  type LeaseLineResponse,
  type Need,
} from '#db/limits/leases.ts';
import type { SubjectLimits } from '#db/limits/limits.ts';
import { type Amounts, isByUsage, reservedAmount, returnsUnits, unitsReserved } from '#db/limits/meters.ts';
import { minuteOf } from '#db/limits/windows.ts';
import {
  ASK_REQUESTS_MAX,
  LOOSE_WAIT_MS,
  REFUSAL_MEMORY_MS,
  SETTLING_WAIT_MS,
  STOCK_NEEDS,
  WAITING_MAX,
} from '#server/limits/bounds.ts';
import type { Counter } from '#server/limits/counter.ts';
import { Hold } from '#server/limits/hold.ts';
import { Leases } from '#server/limits/leases.ts';

/**
 * Where calls are admitted. A desk belongs to one instance and decides from its leases. Pure: time
 * and the store's answers are handed in, so that a simulation can run it through any order of events.
 *
 * A call is in one of three places:
 *
 * - *decided at once*: every limit's lease has what it needs. The usual case, without any I/O.
 * - *waiting*: some lease has too little. The next {@link AdmissionController.ask} carries its needs, and the
 *   answer decides it: all that it needs is given, or it is refused by the limit that is short.
 *   What its other limits have in stock is held for it meanwhile.
 * - *waiting for others*: the limit is short, but another instance may hold more than it needs and
 *   has been called to give it back. The call is asked for again until that is certain, for a
 *   bounded time. So a refusal means that the units are used or held, and nothing else.
 *
 * One ask is under way at a time; {@link AdmissionController.answered} or {@link AdmissionController.failed} ends it.
 */

/** What a call must have, and would like to have. */
export type CallNeed = { minimum: Amounts; wanted: Amounts };

/** Why a call was not admitted. */
export type Shortage =
  | { kind: 'short'; counter: Counter; minimum: number }
  /** Part of the limit is with an instance that does not answer. */
  | { kind: 'undecided' }
  /** The store can't be asked, or too many wait for it. */
  | { kind: 'unavailable' };

export type Outcome = Hold | Shortage;
export type Decide = (outcome: Outcome) => void;

type Waiting = {
  subjects: readonly SubjectLimits[];
  need: CallNeed;
  /** The hold that is to grow; null for a new call. */
  grows: Hold | null;
  sinceMs: number;
  /** It was short of what other instances may still give back. */
  isLoose: boolean;
  /** Of the ask under way: the minute whose windows they are, and what is held of each already. */
  minute: number;
  counters: readonly Counter[];
  taken: number[];
  decide: Decide;
};

const NOT_ASKED = { isLoose: false, minute: 0, counters: [], taken: [] };

export class AdmissionController {
  readonly leases = new Leases();
  #waiting: Waiting[] = [];
  #underWay: { counters: Counter[]; asked: Waiting[] } | null = null;

  /**
   * Whether an {@link ask} has something to say: at once, after a pause for other instances, or not at all.
   */
  get pressure(): 'none' | 'others' | 'now' {
    if (this.#underWay) return 'none';
    if (this.leases.isPressed || this.#waiting.some(({ isLoose }) => !isLoose)) return 'now';
    return this.#waiting.length > 0 ? 'others' : 'none';
  }

  /**
   * Admits a call, or queues it.
   * @param subjects whose limits it is charged to: its account, its key.
   * @param nowMs Postgres' time, in milliseconds since 1970: it decides the windows.
   * @param decide called later with the outcome, when the return value is null.
   */
  admit(subjects: readonly SubjectLimits[], need: CallNeed, nowMs: number, decide: Decide): Outcome | null {
    const counters = this.#counters(subjects, nowMs);
    const spent = counters.find((counter) => isSpent(counter, need, nowMs));
    if (spent) return { kind: 'short', counter: spent, minimum: unitsReserved(spent.meter, need.minimum) };
    const hold = takeAll(counters, need.wanted, minuteOf(nowMs));
    if (hold) return hold;
    if (this.#waiting.length >= WAITING_MAX) return { kind: 'unavailable' };
    this.#waiting.push({ ...NOT_ASKED, subjects, need, grows: null, sinceMs: nowMs, decide });
    return null;
  }

  /**
   * Gives a running call more to spend. Only what counts tokens or cost grows.
   * @returns true when it did at once; false when `decide` will tell: with the hold, or a shortage.
   */
  grow(hold: Hold, more: Amounts, nowMs: number, decide: Decide): boolean {
    const counters = growing(hold, nowMs);
    if (counters.every((counter) => unitsReserved(counter.meter, more) <= counter.free)) {
      for (const counter of counters) counter.take(unitsReserved(counter.meter, more));
      hold.extend(counters, more);
      return true;
    }
    this.#waiting.push({
      ...NOT_ASKED,
      subjects: [],
      need: { minimum: more, wanted: more },
      grows: hold,
      sinceMs: nowMs,
      decide,
    });
    return false;
  }

  /** The counters of these limits, in the windows of this moment. */
  countersOf(subjects: readonly SubjectLimits[], nowMs: number): readonly Counter[] {
    return subjects.flatMap((each) => this.leases.of(each, nowMs));
  }

  /** Those that the ask under way tells of. */
  get asked(): readonly Counter[] {
    return this.#underWay?.counters ?? [];
  }

  /** Once a second. */
  tick(nowMs: number): void {
    this.leases.tick(nowMs, this.#underWay !== null);
  }

  /**
   * All that is to be said and asked now; null when there is nothing, or an ask is under way.
   * @param position up to where endings in the log are known here.
   */
  ask(nowMs: number, position: number): LeaseRequest | null {
    if (this.#underWay) return null;
    const asked = this.#decideLocally(nowMs);
    const counters = this.leases.toReport(asked.flatMap(shortCounters), nowMs).toSorted(compareNames);
    if (counters.length === 0) return null;
    const lineOf = new Map(counters.map((counter, line) => [counter, line]));
    const useful = new Map<Counter, number>();
    const requests = asked.map((waiting) =>
      shortCounters(waiting).map((counter): Need => {
        const wanted = unitsReserved(counter.meter, waiting.need.wanted);
        useful.set(counter, (useful.get(counter) ?? 0) + wanted * STOCK_NEEDS);
        return {
          line: lineOf.get(counter) as number,
          minimum: unitsReserved(counter.meter, waiting.need.minimum),
          wanted,
        };
      }),
    );
    const lines = counters.map((counter): LeaseLine => counter.report(useful.get(counter) ?? null));
    this.#underWay = { counters, asked };
    return { position, lines, requests };
  }

  /** The store's answer to the last ask. */
  answered(answer: LeaseResponse, nowMs: number): void {
    const { counters, asked } = this.#end();
    for (const [line, counter] of counters.entries())
      this.leases.answered(counter, answer.lines[line] as LeaseResponse['lines'][number]);
    // All that is given is taken, and all that is not used is back, before anybody hears of it: what
    // one of them does next must not come between.
    const holds = asked.map((waiting, index) => {
      const given = answer.requests[index] as Given;
      if ('amounts' in given) return admitted(waiting, given.amounts);
      giveBack(waiting.counters, waiting.taken);
      return null;
    });
    const waitOn: Waiting[] = [];
    const decisions: (() => void)[] = [];
    for (const [index, waiting] of asked.entries()) {
      const hold = holds[index];
      const given = answer.requests[index] as Given;
      if (hold) decisions.push(() => waiting.decide(hold));
      else if ('shortOf' in given) {
        const counter = counters[given.shortOf] as Counter;
        const outcome = shortage(waiting, counter, answer.lines[given.shortOf] as LeaseLineResponse, nowMs);
        if (outcome) decisions.push(() => waiting.decide(outcome));
        else waitOn.push({ ...waiting, isLoose: true });
      }
    }
    for (const counter of counters) counter.returnSurplus();
    this.#waiting.unshift(...waitOn);
    for (const decide of decisions) decide();
  }

  /** The ask may or may not have arrived. Its calls are refused; what it reported is reported again. */
  failed(): void {
    const { counters, asked } = this.#end();
    for (const counter of counters) counter.press();
    for (const { counters: own, taken, decide } of asked) {
      giveBack(own, taken);
      decide({ kind: 'unavailable' });
    }
  }

  /** Refuses everybody who waits and has not been asked for. */
  refuseWaiting(): void {
    for (const { decide } of this.#waiting.splice(0)) decide({ kind: 'unavailable' });
  }

  #end(): { counters: Counter[]; asked: Waiting[] } {
    const underWay = this.#underWay ?? { counters: [], asked: [] };
    this.#underWay = null;
    return underWay;
  }

  /** Those that can be decided from what is here by now are; the others begin to be asked for. */
  #decideLocally(nowMs: number): Waiting[] {
    const asked: Waiting[] = [];
    const decisions: (() => void)[] = [];
    for (const each of this.#waiting.splice(0, ASK_REQUESTS_MAX)) {
      each.minute = minuteOf(nowMs);
      each.counters = each.grows ? growing(each.grows, nowMs) : this.#counters(each.subjects, nowMs);
      each.taken = each.counters.map((counter) => {
        const wanted = unitsReserved(counter.meter, each.need.wanted);
        return !counter.strict && counter.take(wanted) ? wanted : 0;
      });
      const hold = shortCounters(each).length === 0 ? admitted(each, []) : null;
      if (hold) decisions.push(() => each.decide(hold));
      else asked.push(each);
    }
    for (const decide of decisions) decide();
    return asked;
  }

  #counters(subjects: readonly SubjectLimits[], nowMs: number): readonly Counter[] {
    const [first, second] = subjects;
    if (!first) return [];
    const counters = this.leases.of(first, nowMs);
    return second ? [...counters, ...this.leases.of(second, nowMs)] : counters;
  }
}

/** The call is given what it was short of; the rest is held for it already. */
function admitted(waiting: Waiting, amounts: readonly number[]): Hold {
  const { counters, taken, need, grows, minute } = waiting;
  const short = shortCounters(waiting);
  const units = counters.map((counter, index) => {
    const given = amounts[short.indexOf(counter)];
    if (given === undefined) return taken[index] as number;
    if (!counter.take(given)) throw new Error('the store granted less than it gave');
    return given;
  });
  if (!grows) return new Hold(counters, units, leastOf(counters, units, need.wanted), minute);
  if (grows.isOver) giveBack(counters, units);
  else grows.extend(counters, need.wanted);
  return grows;
}

/** What a call is told that a limit is short for; null while it is not certain that it is. */
function shortage(
  { need, grows, sinceMs }: Waiting,
  counter: Counter,
  answer: LeaseLineResponse,
  nowMs: number,
): Shortage | null {
  const minimum = unitsReserved(counter.meter, need.minimum);
  const refusal: Shortage = { kind: 'short', counter, minimum };
  if (grows) return refusal;
  // What came back here meanwhile, or was too little alone, may be enough with what the store has.
  const isOurs = counter.free > 0;
  // If not even everything that is not spent were enough, there is nothing to wait for.
  if ((answer.loose || isOurs) && minimum <= answer.cap - answer.used) {
    if (Math.abs(nowMs - sinceMs) >= LOOSE_WAIT_MS) return { kind: 'undecided' };
    if (isOurs) counter.recall();
    return null;
  }
  // What a reply that has just ended did not use is free when its ending is in the log: a client that
  // waited for the reply is back sooner than that.
  const isComingBack =
    returnsUnits(counter.meter) && counter.known.leased > 0 && minimum <= answer.cap - answer.used;
  if (isComingBack && Math.abs(nowMs - sinceMs) < SETTLING_WAIT_MS) return null;
  // With nothing leased anywhere nothing can come back before the window ends.
  const isFinal = counter.known.leased <= 0 && counter.held === 0 && counter.window !== 'none';
  counter.spent = {
    minimum,
    fromMs: nowMs,
    untilMs: isFinal ? counter.end * 60_000 : nowMs + REFUSAL_MEMORY_MS,
  };
  return refusal;
}

function isSpent(counter: Counter, need: CallNeed, nowMs: number): boolean {
  const { spent, meter } = counter;
  if (spent === null) return false;
  if (spent.fromMs <= nowMs && nowMs < spent.untilMs)
    return unitsReserved(meter, need.minimum) >= spent.minimum;
  counter.spent = null;
  return false;
}

function takeAll(counters: readonly Counter[], wanted: Amounts, minute: number): Hold | null {
  for (const counter of counters) {
    if (counter.strict || unitsReserved(counter.meter, wanted) > counter.free) return null;
  }
  const held = counters.map((counter) => {
    const units = unitsReserved(counter.meter, wanted);
    counter.take(units);
    return units;
  });
  return new Hold(counters, held, wanted, minute);
}

/** What a call may spend: what it wanted or, where a limit gave less of it, that. */
function leastOf(counters: readonly Counter[], held: readonly number[], wanted: Amounts): Amounts {
  const least = { ...wanted };
  for (const [index, counter] of counters.entries()) {
    const amount = reservedAmount(counter.meter);
    if (amount !== null) least[amount] = Math.min(least[amount], held[index] as number);
  }
  return least;
}

/** The limits that have too little here for a call. */
function shortCounters({ counters, taken, need }: Waiting): Counter[] {
  return counters.filter(
    (counter, index) => taken[index] === 0 && unitsReserved(counter.meter, need.wanted) > 0,
  );
}

/** What of a hold can grow: tokens and cost, of windows that have not ended. */
function growing(hold: Hold, nowMs: number): Counter[] {
  const minute = minuteOf(nowMs);
  return hold.counters.filter(({ meter, end }) => isByUsage(meter) && end > minute);
}

function giveBack(counters: readonly Counter[], units: readonly number[]): void {
  for (const [index, counter] of counters.entries()) if (units[index]) counter.release(units[index]);
}
