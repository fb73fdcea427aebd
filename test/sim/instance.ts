import type { AllowanceName, LeaseResponse, LeaseRequest } from '#db/limits/leases.ts';
import { RECALL_PAUSE_MS } from '#server/limits/bounds.ts';
import { RECONNECT_FIRST_MS, RECONNECT_MAX_MS } from '#db/bounds.ts';
import type { Counter } from '#server/limits/counter.ts';
import { Leases } from '#server/limits/leases.ts';
import { AdmissionController } from '#server/limits/admission-controller.ts';
import type { Outcome } from '#server/limits/waiting-call.ts';
import type { Reservation } from '#server/limits/reservation.ts';
import type { Clockwork } from './clockwork.ts';
import { type Call, Plans } from './plans.ts';
import { DeadError, type LogRow, nameOf, type SimStore } from './store.ts';

/** What an instance lives in. */
export type Surroundings = {
  clockwork: Clockwork;
  store: SimStore;
  plans: Plans;
  /** Postgres' time less that of the schedule. */
  clockMs: number;
  /** How long something takes from here to the store, or back. */
  wayMs(): number;
  fate(): 'arrives' | 'lost' | 'reply lost';
  exchange(instance: Instance, ask: LeaseRequest): LeaseResponse;
  append(rows: readonly LogRow[]): number;
  decided(instance: Instance, call: Call, outcome: Outcome, isAtOnce: boolean): void;
  violation(message: string): void;
};

/** Told when it is durable, which may be never. */
type Entry = { row: LogRow; written?: () => void; refused?: () => void };

const TICK_MS = 1_000;
/** Much less than a server's, so that leases end and begin again within a schedule. */
const IDLE_MS = 400;
/** What one turn of the event loop takes. */
const TURN_MS = 0.05;

/**
 * One instance: a real admission controller, with simulated connections to Postgres. Its lease client
 * does what server/limits/lease-client.ts does, its appender what server/instance/appender.ts does.
 * All its work stops when it crashes, and pauses while it is frozen.
 */
export class Instance {
  readonly id: number;
  readonly admission = new AdmissionController(new Leases(IDLE_MS));
  readonly counters = new Map<string, Counter>();
  /** What the store has given to calls in answers that are under way. */
  readonly transit = new Map<string, number>();
  state: 'running' | 'draining' | 'frozen' | 'crashed' | 'over' = 'running';
  /** The store can't be reached, or what was said to it was lost and it is not noticed yet. */
  isCutOff = false;
  lastAwayMs = -Infinity;
  clockMs = 0;
  version = 0;
  running = 0;
  waiting = 0;
  readonly #world: Surroundings;
  #backlog: (() => void)[] = [];
  #failures = 0;
  #isBusy = false;
  #queue: Entry[] = [];
  #isAppending = false;
  #head: number;

  constructor(world: Surroundings) {
    this.#world = world;
    this.id = world.store.register();
    this.#head = world.store.log.length;
    this.setClock();
    this.after(world.clockwork.between(1, TICK_MS), () => this.#tick());
  }

  get isReachable(): boolean {
    return (this.state === 'running' || this.state === 'draining') && !this.isCutOff;
  }

  get isQuiet(): boolean {
    return this.running === 0 && this.waiting === 0 && this.#queue.length === 0 && !this.#isAppending;
  }

  /** Postgres' time as this instance knows it, in milliseconds since 1970. */
  get nowMs(): number {
    return this.#world.clockwork.nowMs + this.clockMs;
  }

  setClock(): void {
    this.clockMs = this.#world.clockMs + this.#world.clockwork.between(-3, 0);
  }

  /** Something that happens within this instance. */
  after(ms: number, run: () => void): void {
    this.#world.clockwork.after(ms, () => this.#happen(run));
  }

  #happen(run: () => void): void {
    if (this.state === 'crashed' || this.state === 'over') return;
    if (this.state === 'frozen') this.#backlog.push(run);
    else run();
  }

  freeze(ms: number): void {
    const before = this.state;
    this.state = 'frozen';
    this.#world.clockwork.after(ms, () => {
      if (this.state !== 'frozen') return;
      this.state = before;
      this.lastAwayMs = this.#world.clockwork.nowMs;
      for (const run of this.#backlog.splice(0)) this.#happen(run);
    });
  }

  call(call: Call): void {
    const { world, subjects } = {
      world: this.#world,
      subjects: this.#world.plans.subjects(this.version, call),
    };
    call.version = this.version;
    call.terms = subjects.reduce((newest, { position }) => Math.max(newest, position), 0);
    const decide = (outcome: Outcome, isAtOnce = false): void => {
      call.decisions++;
      this.waiting--;
      world.decided(this, call, outcome, isAtOnce);
    };
    this.waiting++;
    const outcome = this.admission.admit(subjects, call.need, this.nowMs, (later) => decide(later));
    this.#note(this.admission.countersOf(subjects, this.nowMs));
    if (outcome) decide(outcome, true);
    else this.start();
  }

  /** The call is recorded, runs, perhaps grows, and ends. */
  run(call: Call, hold: Reservation): void {
    const { clockwork } = this.#world;
    this.running++;
    this.#note([hold, ...hold.observed].flatMap(({ counters }) => counters));
    const row = (type: LogRow['type'], { tokens, cost }: { tokens: number; cost: number }): LogRow => ({
      type,
      instance: this.id,
      request: call.request,
      ...call.whose,
      tokens,
      cost,
      minute: hold.minute,
      terms: call.terms,
      observed: hold.rejections,
    });
    const settle = (): void => {
      const spent = this.#world.plans.spend(call, hold);
      this.#append({
        row: row('settled', spent),
        written: () => {
          this.running--;
          hold.settle({ input_tokens: spent.tokens, output_tokens: 0, cost_nanousd: spent.cost });
          this.start();
        },
      });
    };
    this.#append({
      row: row('accepted', hold),
      written: () => {
        for (let growths = call.growths; growths > 0; growths--) {
          this.after(clockwork.between(1, call.lengthMs), () => {
            if (hold.isOver) return;
            const grown = (): void => this.#append({ row: row('extended', hold) });
            const more = { tokens: call.need.wanted.tokens, cost: call.need.wanted.cost };
            if (
              this.admission.grow(
                hold,
                more,
                this.nowMs,
                (outcome) => outcome === hold && !hold.isOver && !call.isSettling && grown(),
              )
            )
              grown();
            else this.start();
          });
        }
        this.after(call.lengthMs + 1, () => {
          call.isSettling = true;
          settle();
        });
      },
      refused: () => {
        this.running--;
        hold.release();
        this.start();
      },
    });
  }

  start(): void {
    if (this.#failures > 0) this.admission.rejectWaiting();
    if (this.#isBusy || this.admission.urgency === 'none') return;
    this.#isBusy = true;
    this.after(TURN_MS, () => this.#work());
  }

  #work(): void {
    if (this.admission.urgency === 'none') {
      this.#isBusy = false;
      return;
    }
    if (this.admission.urgency === 'after_pause') this.after(RECALL_PAUSE_MS, () => this.#exchange());
    else this.#exchange();
  }

  #exchange(): void {
    const world = this.#world;
    const ask = this.admission.nextRequest(this.nowMs, this.#head);
    if (!ask) return this.after(TURN_MS, () => this.#work());
    // A call that waits may by now be of a window that has begun since it came.
    this.#note(this.admission.inFlight);
    const fate = world.fate();
    if (fate !== 'arrives') this.isCutOff = true;
    const lost = (): void => this.after(world.clockwork.between(1, 40), () => this.#failed());
    if (fate === 'lost') return lost();
    world.clockwork.after(world.wayMs(), () => {
      let answer: LeaseResponse;
      try {
        answer = world.exchange(this, ask);
      } catch (error) {
        if (!(error instanceof DeadError)) throw error;
        return this.after(world.wayMs(), () => this.stop());
      }
      this.#inTransit(ask, answer);
      if (fate === 'reply lost') return lost();
      this.after(world.wayMs(), () => {
        this.transit.clear();
        this.#failures = 0;
        if (this.isCutOff) this.lastAwayMs = world.clockwork.nowMs;
        this.isCutOff = false;
        this.admission.applyResponse(answer, this.nowMs);
        this.#work();
      });
    });
  }

  #failed(): void {
    this.transit.clear();
    this.#failures++;
    this.admission.requestFailed();
    this.admission.rejectWaiting();
    this.after(Math.min(RECONNECT_MAX_MS, RECONNECT_FIRST_MS * 2 ** this.#failures), () => this.#work());
  }

  #inTransit({ lines, requests }: LeaseRequest, answer: LeaseResponse): void {
    for (const [index, given] of answer.requests.entries()) {
      if (!('amounts' in given)) continue;
      for (const [at, need] of (requests[index] ?? []).entries()) {
        const name = nameOf(lines[need.line] as AllowanceName);
        this.transit.set(name, (this.transit.get(name) ?? 0) + (given.amounts[at] ?? 0));
      }
    }
  }

  /** It was declared dead, and learns it: everything that still runs is cut. */
  stop(): void {
    this.isCutOff = true;
    this.admission.requestFailed();
    this.admission.rejectWaiting();
    this.state = 'over';
  }

  /** Whatever it has left over goes back. */
  recallAll(): void {
    this.admission.leases.recallAll();
    this.start();
  }

  #tick(): void {
    this.setClock();
    this.admission.tick(this.nowMs);
    this.start();
    this.after(TICK_MS, () => this.#tick());
  }

  #append(entry: Entry): void {
    this.#queue.push(entry);
    if (this.#isAppending) return;
    this.#isAppending = true;
    this.after(TURN_MS, () => this.#flush());
  }

  /** One batch is under way at a time. Once it is sent it arrives, whatever becomes of its sender. */
  #flush(): void {
    const { clockwork, store } = this.#world;
    const batch = this.#queue.splice(0);
    if (batch.length === 0) {
      this.#isAppending = false;
      return;
    }
    clockwork.after(this.#world.wayMs(), () => {
      try {
        const last = this.#world.append(batch.map(({ row }) => row));
        this.after(this.#world.wayMs(), () => {
          this.#head = last;
          for (const { written } of batch) written?.();
          this.#flush();
        });
      } catch (error) {
        if (!(error instanceof DeadError) || store.isLive(this.id)) throw error;
        this.after(this.#world.wayMs(), () => this.stop());
      }
    });
  }

  #note(counters: readonly Counter[]): void {
    for (const counter of counters) {
      this.counters.set(nameOf(counter), counter);
      if (counter.free < 0)
        this.#world.violation(`instance ${this.id} has ${counter.free} free of ${nameOf(counter)}`);
    }
  }
}
