import type { Client } from 'pg';
import { closeClient } from '#db/connect.ts';
import { exchange } from '#db/leases.ts';
import type { SubjectLimits } from '#db/limits.ts';
import { FencedError } from '#db/log/append.ts';
import { LOOSE_PAUSE_MS, RECONNECT_FIRST_MS, RECONNECT_MAX_MS } from '#server/bounds.ts';
import type { Counter } from '#server/limits/counter.ts';
import { type CallNeed, Desk, type Outcome } from '#server/limits/desk.ts';
import type { Amounts, Hold } from '#server/limits/hold.ts';

/**
 * The desk's errand boy: carries what it asks to the store and what the store says back, one
 * exchange at a time, and passes on the calls of other instances that need what is left over here.
 */
export type LimitsOptions = {
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

export class Limits {
  readonly #options: LimitsOptions;
  readonly #desk = new Desk();
  readonly #timer: NodeJS.Timeout;
  #client: Client | undefined;
  #running: Promise<void> | undefined;
  #failures = 0;
  #exchanges = 0;
  #closed = false;
  /** Those who wait for the end of an exchange that begins after their question. */
  #curious: (() => void)[] = [];

  constructor(options: LimitsOptions) {
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
  settle(hold: Hold, spent: Amounts): void {
    hold.settle(spent);
    this.#start();
  }

  /** The call was never recorded. */
  release(hold: Hold): void {
    hold.release();
    this.#start();
  }

  /**
   * The counters of these limits, with what the store knows of all instances just now.
   * @returns what is known here when the store can't be asked.
   */
  async figures(subjects: readonly SubjectLimits[]): Promise<readonly Counter[]> {
    const counters = this.#desk.countersOf(subjects, this.#options.nowMs());
    if (counters.length === 0 || this.#closed) return counters;
    for (const counter of counters) counter.press();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#curious.push(resolve);
    this.#start();
    await promise;
    return counters;
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
      if (this.#desk.pressure === 'others') await new Promise((resolve) => setTimeout(resolve, LOOSE_PAUSE_MS));
      await this.#exchange();
    }
  }

  async #exchange(): Promise<void> {
    const { nowMs, position, instance, onFenced, onError } = this.#options;
    const curious = this.#curious.splice(0);
    try {
      const client = (this.#client ??= await this.#connect());
      const ask = this.#desk.ask(nowMs(), position());
      if (ask) {
        this.#exchanges++;
        const answer = await exchange(client, instance, ask);
        if (!this.#closed) this.#desk.answered(answer, nowMs());
      }
      this.#failures = 0;
    } catch (error) {
      this.#failures++;
      this.#desk.failed();
      this.#desk.refuseWaiting();
      for (const resolve of curious.splice(0)) resolve();
      if (error instanceof FencedError) {
        this.#closed = true;
        return onFenced();
      }
      onError(error);
      await this.#disconnect();
      await new Promise((resolve) => setTimeout(resolve, Math.min(RECONNECT_MAX_MS, RECONNECT_FIRST_MS * 2 ** this.#failures)));
    } finally {
      for (const resolve of curious) resolve();
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
