import type { AllowanceName, LeaseResponse, LeaseRequest } from '#db/limits/leases.ts';
import { windowEnd, windowStart } from '#db/limits/windows.ts';
import { RECALL_PAUSE_MS, RECALL_WAIT_MS, EXHAUSTED_FOR_MS } from '#server/limits/bounds.ts';
import type { Outcome } from '#server/limits/waiting-call.ts';
import { Reservation } from '#server/limits/reservation.ts';
import { Clockwork } from './clockwork.ts';
import { FreeUnits } from './free-units.ts';
import { Instance, type Surroundings } from './instance.ts';
import { type Call, Plans } from './plans.ts';
import { type LogRow, nameOf, SimStore } from './store.ts';
import { Truth } from './truth.ts';

/** What became of a schedule: `violations` is empty when every promise held. */
export type Outcomes = {
  violations: string[];
  steps: number;
  exchanges: number;
  admitted: number;
  atOnce: number;
  short: number;
  observed: number;
  undecided: number;
  unavailable: number;
  abandoned: number;
};

/** When a schedule begins: a little before windows of all kinds end, or in the middle of them. */
const EDGES = [
  '2026-11-21T05:00:00Z',
  '2026-11-23T00:00:00Z',
  '2026-12-01T00:00:00Z',
  '2027-01-01T00:00:00Z',
  '2026-11-18T10:30:00Z',
];
/** Nobody may be left waiting this long after the last call came. */
const REST_MS = 30_000;
/**
 * Instances read the clock once a second, and what they dropped as over before it was set back they find
 * again.
 */
const CLOCK_LEARNT_MS = 2_000;
/** A schedule takes some hundred; one that goes round in circles takes any number. */
const STEPS_MAX = 20_000;

/**
 * Runs one schedule: instances with calls, a store that is slow and loses requests and replies,
 * crashes, freezes, clocks that jump, limits that change, all decided by one seed.
 *
 * What must hold at every step: leases add up to their allowance, which its ceiling bounds; by the
 * log alone no limit is exceeded, or by no more than calls overdrew; no instance has less than
 * nothing free; a hold is of the windows of its minute; each call is decided once. In the end the
 * store has exactly what the log says. And a refusal is just: there was a moment, not longer ago
 * than it takes to come to know of it, when the units were spent or held. Those of an instance that
 * can't be asked count as held where it had said to keep no more; else the call must be told that
 * it could not be decided.
 */
export function simulate(seed: number): Outcomes {
  return new World(seed).run();
}

export class World implements Surroundings {
  readonly clockwork: Clockwork;
  readonly store = new SimStore();
  readonly plans: Plans;
  clockMs: number;
  exchanges = 0;
  readonly #truth: Truth;
  readonly #worker = this.store.register();
  readonly #instances: Instance[] = [];
  readonly #calls: { call: Call; instance: Instance }[] = [];
  readonly #violations: string[] = [];
  readonly #counts = {
    admitted: 0,
    atOnce: 0,
    short: 0,
    observed: 0,
    undecided: 0,
    unavailable: 0,
    abandoned: 0,
  };
  readonly #free: FreeUnits;
  readonly #way: { most: number; faulty: number };
  readonly #toleranceMs: number;
  readonly #jumps: boolean;
  #isCalm = false;
  #jumpedMs = -Infinity;

  constructor(seed: number) {
    const clockwork = (this.clockwork = new Clockwork(seed));
    this.plans = new Plans(clockwork);
    this.#truth = new Truth(this.plans.versions, Plans.OVERDRAFT);
    this.#way = { most: clockwork.pick([0.5, 2, 6]), faulty: clockwork.pick([0, 0, 0, 0.03, 0.15]) };
    const jumps = (this.#jumps = clockwork.chance(0.3));
    this.clockMs = Date.parse(clockwork.pick(EDGES)) - clockwork.between(0, 6_000);
    // A refusal is remembered for so long. Before it was decided, what is free elsewhere may have had
    // to wait for an exchange that was under way, or in its pause, then came with the next; the
    // refusal itself has its own way back.
    this.#toleranceMs = EXHAUSTED_FOR_MS + RECALL_PAUSE_MS + 6 * this.#way.most + 1;
    this.#free = new FreeUnits(this.store, this.#truth, this.#instances);
    this.append([control(this.#worker)]);
    const count = clockwork.between(2, 4);
    for (let index = 0; index < count; index++) this.#instances.push(new Instance(this));
    this.store.onRecall = (allowance) => this.#recall(allowance);
    this.#plan(clockwork.between(1_000, 6_000), jumps);
  }

  run(): Outcomes {
    try {
      this.#runUntil(10_000);
      this.#end();
    } catch (error) {
      this.violation(String((error as Error).stack));
    }
    return {
      violations: [...this.#violations, ...this.#truth.violations],
      steps: this.clockwork.steps,
      exchanges: this.exchanges,
      ...this.#counts,
    };
  }

  violation(message: string): void {
    this.#violations.push(`${Math.round(this.clockwork.nowMs)} ms: ${message}`);
  }

  /** How long something takes from here to the store, or back. */
  wayMs(): number {
    return (this.#way.most * this.clockwork.between(10, 100)) / 100;
  }

  fate(): 'arrives' | 'lost' | 'reply lost' {
    if (this.#isCalm || !this.clockwork.chance(this.#way.faulty)) return 'arrives';
    return this.clockwork.pick(['lost', 'reply lost']);
  }

  append(rows: readonly LogRow[]): number {
    const last = this.store.append(rows);
    for (const row of rows) this.#truth.add(row, this.clockwork.nowMs + this.clockMs);
    return last;
  }

  exchange(instance: Instance, ask: LeaseRequest): LeaseResponse {
    this.exchanges++;
    const answer = this.store.exchange(instance.id, ask, this.clockwork.nowMs + this.clockMs);
    for (const line of ask.lines) this.#checkSums(line);
    return answer;
  }

  decided(instance: Instance, call: Call, outcome: Outcome, isAtOnce: boolean): void {
    if (call.decisions > 1) this.violation(`call ${call.request} was decided twice`);
    if (outcome instanceof Reservation) {
      this.#counts.admitted++;
      if (isAtOnce) this.#counts.atOnce++;
      this.#observed(instance, call, outcome);
      const isOfItsMinute = [outcome, ...outcome.observed].every(({ counters }) =>
        counters.every(({ window, start }) => windowStart(window, outcome.minute) === start),
      );
      if (!isOfItsMinute)
        this.violation(`call ${call.request} of minute ${outcome.minute} holds of another window`);
      return instance.run(call, outcome);
    }
    this.#counts[outcome.kind]++;
    if (outcome.kind === 'short' && this.#isInformed(instance, outcome.counter.end)) {
      const key = nameOf(outcome.counter);
      const least = this.#free.leastSince(key, this.clockwork.nowMs - this.#toleranceMs);
      if (least >= outcome.minimum)
        this.violation(
          `request ${call.request} was refused ${outcome.minimum} of ${key}, ` +
            `though ${least} were free beyond the tolerance`,
        );
    }
    if (outcome.kind === 'undecided') {
      // A clock that jumps by as much as a call waits ends the wait early.
      const sinceMs = this.#jumps ? -Infinity : this.clockwork.nowMs - 3 * RECALL_WAIT_MS;
      if (!this.#instances.some((each) => !each.isReachable || each.lastAwayMs >= sinceMs)) {
        this.violation(`call ${call.request} is undecided although everybody could be asked`);
      }
    } else if (
      outcome.kind === 'unavailable' &&
      instance.lastAwayMs < this.clockwork.nowMs - 3 * RECALL_WAIT_MS &&
      instance.isReachable
    ) {
      this.violation(`call ${call.request} found the store unavailable, which it was not`);
    }
  }

  /** An observed limit names a call only where an enforced one would have refused it justly. */
  #observed(
    instance: Instance,
    call: Call,
    { rejections, observed, minute, tokens, cost }: Reservation,
  ): void {
    this.#counts.observed += rejections.length;
    // Beside a hard limit it may hold less than the call may use.
    for (const part of observed)
      if (part.tokens < tokens || part.cost < cost)
        for (const counter of part.counters) this.#truth.outgrown.add(nameOf(counter));
    for (const { subject, meter, window, needed, free } of rejections) {
      if (free === undefined) continue;
      const start = windowStart(window, minute);
      const [counter] = [...instance.counters.values()]
        .filter((each) => each.subject === subject && each.meter === meter && each.window === window)
        .filter((each) => each.start === start && each.reset <= call.terms)
        .toSorted((one, other) => other.reset - one.reset);
      if (!counter || !this.#isInformed(instance, counter.end, call)) continue;
      const key = nameOf(counter);
      const least = this.#free.leastSince(key, call.arrivedMs - this.#toleranceMs);
      if (least >= needed)
        this.violation(`request ${call.request} needed ${needed} of ${key}, where ${least} were free`);
    }
  }

  /**
   * It was not asleep, knows the newest terms and the time, and the window is over by nobody's clock: then
   * nothing comes back. @param since the same since this call arrived.
   */
  #isInformed(instance: Instance, end: number, since?: Call): boolean {
    const nowMs = since?.arrivedMs ?? this.clockwork.nowMs;
    const version = since?.version ?? instance.version;
    const isAwake =
      instance.lastAwayMs < nowMs - this.#toleranceMs && this.#jumpedMs < nowMs - CLOCK_LEARNT_MS;
    return (
      isAwake &&
      version === this.plans.versions.length - 1 &&
      this.#instances.every((each) => each.nowMs < end * 60_000)
    );
  }

  /** Everything that is decided in advance: when calls come, limits change, and things break. */
  #plan(lengthMs: number, jumps: boolean): void {
    const { clockwork } = this;
    const later = (run: () => void): void => clockwork.after(clockwork.between(0, lengthMs), run);
    for (let left = clockwork.between(15, 60); left > 0;) {
      const burst = Math.min(left, clockwork.chance(0.2) ? clockwork.between(2, 20) : 1);
      left -= burst;
      later(() => {
        for (let count = 0; count < burst; count++) this.#arrive();
      });
    }
    if (clockwork.chance(0.4))
      for (let count = clockwork.between(1, 3); count > 0; count--) later(() => this.#changeTerms());
    if (clockwork.chance(0.3)) later(() => this.#crash(clockwork.pick(this.#instances)));
    if (clockwork.chance(0.2)) later(() => this.#freeze(clockwork.pick(this.#instances)));
    if (clockwork.chance(0.2)) later(() => this.#retire(clockwork.pick(this.#instances)));
    if (clockwork.chance(0.2)) later(() => this.#instances.push(new Instance(this)));
    if (jumps) {
      for (let count = 3; count > 0; count--) {
        later(() => {
          this.clockMs += clockwork.between(-800, 800);
          this.#jumpedMs = clockwork.nowMs;
        });
      }
    }
  }

  #arrive(): void {
    const instance = this.clockwork.pick(
      this.#instances.filter(({ state }) => state === 'running' || state === 'frozen'),
    ) as Instance | undefined;
    const call = this.plans.call();
    if (instance) this.#calls.push({ call, instance });
    instance?.after(0, () => instance.call(call));
  }

  #changeTerms(): void {
    const reset = this.clockwork.pick([null, null, 'account', 'key'] as const);
    this.append([control(this.#worker)]);
    this.plans.change(this.store.log.length, reset);
    const version = this.plans.versions.length - 1;
    for (const instance of this.#instances) {
      instance.after(this.clockwork.between(0, 300), () => {
        instance.version = Math.max(instance.version, version);
      });
    }
  }

  #crash(instance: Instance): void {
    if (instance.state !== 'over') instance.state = 'crashed';
    this.#declareDead(instance);
  }

  #freeze(instance: Instance): void {
    if (instance.state !== 'running') return;
    instance.freeze(this.clockwork.between(5, 2_500));
    if (this.clockwork.chance(0.5)) this.#declareDead(instance);
  }

  #declareDead(instance: Instance): void {
    const { clockwork } = this;
    clockwork.after(clockwork.between(20, 1_500), () => {
      this.store.fence(instance.id);
      clockwork.after(clockwork.between(0, 500), () => this.#recover(instance));
    });
  }

  #recover(instance: Instance): void {
    const count = this.store.recover(instance.id, this.#worker, this.clockwork.nowMs + this.clockMs);
    if (count > 0)
      for (const row of this.store.log.slice(-count))
        this.#truth.add(row, this.clockwork.nowMs + this.clockMs);
    this.#counts.abandoned += count;
    for (const { name } of this.store.allowances.values()) this.#checkSums(name);
  }

  /** It takes no more calls, waits for those that run, gives everything back, and ends. */
  #retire(instance: Instance): void {
    if (instance.state !== 'running') return;
    instance.state = 'draining';
    const leave = (): void => {
      if (!instance.isQuiet) return instance.after(20, leave);
      instance.recallAll();
      // Its last words may not arrive in time.
      instance.after(this.clockwork.pick([0, 50]), () => {
        instance.stop();
        this.store.retire(instance.id, this.clockwork.nowMs + this.clockMs);
        for (const { name } of this.store.allowances.values()) this.#checkSums(name);
      });
    };
    instance.after(1, leave);
  }

  #recall(allowance: number): void {
    for (const instance of this.#instances) {
      // One that is connecting anew doesn't listen meanwhile.
      if (instance.isCutOff || this.clockwork.chance(this.#way.faulty)) continue;
      instance.after(this.wayMs(), () => {
        instance.admission.leases.recall(allowance);
        instance.start();
      });
    }
  }

  #runUntil(untilMs: number): void {
    while (this.clockwork.step(untilMs)) {
      if (this.clockwork.steps > STEPS_MAX) throw new Error('the schedule does not come to an end');
      this.#free.look(this.clockwork.nowMs);
      this.#truth.look(this.#instances);
    }
  }

  /** Everything that was broken ends, everybody gives back what is left, and the books are compared. */
  #end(): void {
    this.#isCalm = true;
    this.#runUntil(15_000);
    for (const instance of this.#instances) {
      if (this.store.isLive(instance.id) || instance.state === 'over') continue;
      this.#recover(instance);
    }
    for (const instance of this.#instances) if (instance.state === 'running') instance.recallAll();
    this.#runUntil(REST_MS);
    for (const { call, instance } of this.#calls) {
      if (call.decisions !== 1 && instance.state === 'running')
        this.violation(`call ${call.request} was decided ${call.decisions} times`);
    }
    if (this.#truth.openCount > 0) this.violation(`${this.#truth.openCount} requests never ended`);
    for (const { id, counters } of this.#instances.filter(({ state }) => state === 'running')) {
      for (const each of counters.values())
        if (each.held > 0) this.violation(`instance ${id} still holds ${each.held} of ${nameOf(each)}`);
    }
    for (const [key, { name, granted, returned, used, overdrawn, held }] of this.store.allowances) {
      if (windowEnd(name.window, name.start) * 60_000 < this.clockwork.nowMs + this.clockMs + 2_000) continue;
      const settled = this.#truth.settled.get(key) ?? 0;
      if (granted - returned !== used || used + overdrawn !== settled || held !== 0)
        this.violation(
          [
            `${key}: ${granted} − ${returned} granted`,
            `${used} + ${overdrawn} used`,
            `${held} held`,
            `${settled} settled in the log`,
          ].join(', '),
        );
    }
  }

  #checkSums(name: AllowanceName): void {
    const row = this.store.allowances.get(nameOf(name));
    if (!row) return;
    let leased = 0;
    for (const lease of this.store.leases.get(row.id)?.values() ?? [])
      leased += lease.granted - lease.returned;
    if (leased !== row.granted - row.returned)
      this.violation(`${nameOf(name)}: leases have ${leased}, the allowance ${row.granted - row.returned}`);
  }
}

function control(instance: number): LogRow {
  return {
    type: 'control',
    instance,
    request: '',
    account: '',
    key: '',
    tokens: 0,
    cost: 0,
    minute: 0,
    terms: 0,
  };
}
