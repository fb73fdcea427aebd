import type { Client } from 'pg';
import { closeClient } from '#db/postgres/connect.ts';
import { exchange } from '#db/limits/leases.ts';
import type { SubjectLimits } from '#db/limits/limits.ts';
import type { Amounts, Usage } from '#db/limits/meters.ts';
import { FencedError } from '#db/log/append.ts';
import { FIGURES_WAIT_MS, LIMITS_ASKED_MAX, LOOSE_PAUSE_MS } from '#server/limits/bounds.ts';
import { RECONNECT_FIRST_MS, RECONNECT_MAX_MS } from '#db/bounds.ts';
import { minuteOf } from '#db/limits/windows.ts';
import type { Counter } from '#server/limits/counter.ts';
import { type CallNeed, AdmissionController, type Outcome } from '#server/limits/admission-controller.ts';
import type { Hold } from '#server/limits/hold.ts';

/**
 * The desk's errand boy: carries what it asks to the store and what the store says back, one
 * exchange at a time, and passes on the calls of other instances that need what is left over here.
 */
export type LeaseClientOptions = {
  connect: () => Promise<Client>;
  instance: number;
  /** Postgres' time, in milliseconds since 1970. */
  nowMs: () => number;
  /** Up to where the log is known to hold this instance's endings. */
  position: () => number;
  onFenced: () => void;
  onError: (error: unknown) => void;
};

const TICK_MS = 1_000;

export class LeaseClient {
  readonly #options: LeaseClientOptions;
  readonly #desk = new AdmissionController();
  readonly #timer: NodeJS.Timeout;
  #client: Client | undefined;
  #running: Promise<void> | undefined;
  #failures = 0;
  #exchanges = 0;
  #closed = false;
  /**
   * Somebody who waits until each of these counters was told of in an exchange that began after the question.
   */
  #curious: { counters: Set<Counter>; tell: (isTold: boolean) => void } | null = null;
  /** Those who ask for figures do so one after the other. */
  #looking: Promise<unknown> = Promise.resolve();

  constructor(options: LeaseClientOptions) {
    this.#options = options;
    this.#timer = setInterval(() => {
      this.#desk.tick(this.#options.nowMs());
      this.#start();
    }, TICK_MS);
    this.#timer.unref();
  }

  /** How often the store was asked, since this place in the log was taken. */
  get exchanges(): number {
    return this.#exchanges;
  }

  /** Admits a call at once where its leases allow it, else by asking the store. Never throws. */
  admit(subjects: readonly SubjectLimits[], need: CallNeed): Outcome | Promise<Outcome> {
    // Its instance is lost, and nobody would ever answer.
    if (this.#closed) return { kind: 'unavailable' };
    let resolve: ((outcome: Outcome) => void) | null = null;
    const outcome = this.#desk.admit(subjects, need, this.#options.nowMs(), (later) => resolve?.(later));
    if (outcome) return outcome;
    return new Promise((settle) => {
      resolve = settle;
      this.#start();
    });
  }

  /** Gives a running call more to spend; `grown` is called when it has it, which may be never. */
  grow(hold: Hold, more: Amounts, grown: () => void): void {
    if (this.#desk.grow(hold, more, this.#options.nowMs(), (outcome) => outcome === hold && grown())) grown();
    else this.#start();
  }

  /** The call's ending is in the log for good. */
  settle(hold: Hold, usage: Usage): void {
    hold.settle(usage);
    this.#start();
  }

  /** The call was never recorded. */
  release(hold: Hold): void {
    hold.release();
    this.#start();
  }

  /**
   * The counters of these limits, with what the store knows of all instances just now. However many
   * look, the store is asked for some of them at a time, and calls wait no longer for it.
   * @returns null when the store can't be asked, or has too much to do for calls.
   */
  figures(subjects: readonly SubjectLimits[]): Promise<readonly Counter[] | null> {
    if (subjects.length === 0) return Promise.resolve([]);
    const untilMs = performance.now() + FIGURES_WAIT_MS;
    const figures = this.#looking.then(async () => {
      const counters = this.#desk.countersOf(subjects, this.#options.nowMs());
      for (let from = 0; from < counters.length; from += LIMITS_ASKED_MAX) {
        if (!(await this.#look(counters.slice(from, from + LIMITS_ASKED_MAX), untilMs))) return null;
      }
      return counters;
    });
    this.#looking = figures.catch(() => {});
    return figures;
  }

  /** Has the store tell of some counters. @returns whether it has told of all. */
  async #look(counters: readonly Counter[], untilMs: number): Promise<boolean> {
    if (this.#closed || performance.now() >= untilMs) return false;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#curious = { counters: new Set(counters), tell: resolve };
    const patience = setTimeout(() => resolve(false), untilMs - performance.now());
    for (const counter of counters) counter.press();
    this.#start();
    try {
      return await promise;
    } finally {
      clearTimeout(patience);
      this.#curious = null;
    }
  }

  /** Gives everything back, for as long as `graceMs`, and ends. */
  async close(graceMs: number): Promise<void> {
    clearInterval(this.#timer);
    if (graceMs > 0) {
      this.#desk.leases.recallAll();
      this.#start();
      await Promise.race([this.#running, new Promise((resolve) => setTimeout(resolve, graceMs).unref())]);
    }
    this.#closed = true;
    this.#curious?.tell(false);
    this.#desk.failed();
    this.#desk.refuseWaiting();
    await this.#disconnect();
  }

  #start(): void {
    if (this.#closed) return;
    // While the store is away nobody is kept waiting for it.
    if (this.#failures > 0) this.#desk.refuseWaiting();
    if (this.#running || this.#desk.pressure === 'none') return;
    this.#running = this.#run().finally(() => {
      this.#running = undefined;
      if (this.#desk.pressure !== 'none') this.#start();
    });
  }

  async #run(): Promise<void> {
    // All that one turn of the event loop brings goes together.
    await new Promise((resolve) => setImmediate(resolve));
    while (!this.#closed && this.#desk.pressure !== 'none') {
      if (this.#desk.pressure === 'others')
        await new Promise((resolve) => setTimeout(resolve, LOOSE_PAUSE_MS));
      await this.#exchange();
    }
  }

  async #exchange(): Promise<void> {
    const { nowMs, position, instance, onFenced, onError } = this.#options;
    try {
      const client = (this.#client ??= await this.#connect());
      const curious = this.#curious;
      const ask = this.#desk.ask(nowMs(), position());
      const asked = this.#desk.asked;
      if (ask) {
        this.#exchanges++;
        const answer = await exchange(client, instance, ask);
        if (!this.#closed) this.#desk.answered(answer, nowMs());
      }
      if (curious) tellOf(curious, asked, minuteOf(nowMs()));
      this.#failures = 0;
    } catch (error) {
      this.#failures++;
      this.#desk.failed();
      this.#desk.refuseWaiting();
      this.#curious?.tell(false);
      if (error instanceof FencedError) {
        this.#closed = true;
        return onFenced();
      }
      onError(error);
      await this.#disconnect();
      await new Promise((resolve) =>
        setTimeout(resolve, Math.min(RECONNECT_MAX_MS, RECONNECT_FIRST_MS * 2 ** this.#failures)),
      );
    }
  }

  async #connect(): Promise<Client> {
    const client = await this.#options.connect();
    client.on('notification', ({ payload }) => {
      this.#desk.leases.recall(Number(payload));
      this.#start();
    });
    await client.query('listen daybook_recall');
    return client;
  }

  async #disconnect(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    if (client) await closeClient(client);
  }
}

/** The store has told of these counters. Of windows that are over it is told nothing. */
function tellOf(
  { counters, tell }: { counters: Set<Counter>; tell: (isTold: boolean) => void },
  told: readonly Counter[],
  minute: number,
): void {
  for (const counter of told) counters.delete(counter);
  for (const counter of counters) if (counter.end <= minute) counters.delete(counter);
  if (counters.size === 0) tell(true);
}
