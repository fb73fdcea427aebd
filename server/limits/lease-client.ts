import type { Client } from 'pg';
import { closeClient } from '#db/postgres/connect.ts';
import { exchange } from '#db/limits/leases.ts';
import type { SubjectLimits } from '#db/limits/limits.ts';
import type { Amounts, Usage } from '#db/limits/meters.ts';
import { FencedError } from '#db/log/append.ts';
import { FIGURES_WAIT_MS, FIGURES_COUNTERS_MAX, RECALL_PAUSE_MS } from '#server/limits/bounds.ts';
import { RECONNECT_FIRST_MS, RECONNECT_MAX_MS } from '#db/bounds.ts';
import type { CallObserver } from '#server/diagnostics/call-observer.ts';
import { minuteOf } from '#db/limits/windows.ts';
import type { Counter } from '#server/limits/counter.ts';
import { AdmissionController } from '#server/limits/admission-controller.ts';
import type { CallNeed, Outcome } from '#server/limits/waiting-call.ts';
import type { Reservation } from '#server/limits/reservation.ts';

export type LeaseClientOptions = {
  connect: () => Promise<Client>;
  instance: number;
  /** Postgres' time, in milliseconds since 1970. */
  nowMs: () => number;
  /** The log position up to which the ends of this instance's calls are known to be durable. */
  position: () => number;
  onFenced: () => void;
  onError: (error: unknown) => void;
  /** Sees each exchange; absent: nothing does. */
  observer?: Pick<CallObserver, 'exchanged'> | undefined;
};

const TICK_MS = 1_000;

/** A refresh in progress: resolves once a request made after it began has covered all its counters. */
type Refresh = { counters: Set<Counter>; resolve: (isComplete: boolean) => void };

/**
 * Exchanges lease requests with Postgres, one at a time, and receives the recalls of other instances.
 * All decisions are the {@link AdmissionController}'s.
 */
/** Before the number of an allowance of which units were given back. */
const ADJUSTED = 'adjusted ';

export class LeaseClient {
  readonly #options: LeaseClientOptions;
  readonly #admission = new AdmissionController();
  readonly #timer: NodeJS.Timeout;
  #client: Client | undefined;
  #running: Promise<void> | undefined;
  #failures = 0;
  #exchanges = 0;
  #closed = false;
  #refresh: Refresh | null = null;
  /** Refreshes are serialized: each begins when the one before has ended. */
  #lastRefresh: Promise<unknown> = Promise.resolve();

  constructor(options: LeaseClientOptions) {
    this.#options = options;
    this.#timer = setInterval(() => {
      this.#admission.tick(this.#options.nowMs());
      this.#start();
    }, TICK_MS);
    this.#timer.unref();
  }

  /** The number of exchanges of this instance with Postgres. */
  get exchanges(): number {
    return this.#exchanges;
  }

  /** The subjects of which it keeps counters. */
  get subjects(): number {
    return this.#admission.leases.subjects;
  }

  /** Admits a call at once where its leases allow it, else after an exchange with Postgres. Never throws. */
  admit(subjects: readonly SubjectLimits[], need: CallNeed): Outcome | Promise<Outcome> {
    // The instance is fenced: no response would ever come.
    if (this.#closed) return { kind: 'unavailable' };
    let resolve: ((outcome: Outcome) => void) | null = null;
    const outcome = this.#admission.admit(subjects, need, this.#options.nowMs(), (later) => resolve?.(later));
    if (outcome) return outcome;
    return new Promise((settle) => {
      resolve = settle;
      this.#start();
    });
  }

  /** Grows the reservation of a running call; `grown` is called when it has grown, which may be never. */
  grow(reservation: Reservation, more: Amounts, grown: () => void): void {
    const decide = (outcome: Outcome): void => {
      if (outcome === reservation) grown();
    };
    if (this.#admission.grow(reservation, more, this.#options.nowMs(), decide)) grown();
    else this.#start();
  }

  /** The end of the call is durable in the log. */
  settle(reservation: Reservation, usage: Usage): void {
    reservation.settle(usage);
    this.#start();
  }

  /** The call is not in the log. */
  release(reservation: Reservation): void {
    reservation.release();
    this.#start();
  }

  /** The usage of this account or key was adjusted, by whichever process. */
  usageAdjusted(subject: string): void {
    this.#admission.leases.usageAdjusted(subject);
    this.#start();
  }

  /**
   * The counters of these limits with the current figures of all instances. Figures are refreshed a
   * bounded number of counters at a time, so that calls don't wait longer however many are read.
   * @returns null when Postgres does not respond, or is too busy with calls.
   */
  figures(subjects: readonly SubjectLimits[]): Promise<readonly Counter[] | null> {
    if (subjects.length === 0) return Promise.resolve([]);
    const untilMs = performance.now() + FIGURES_WAIT_MS;
    const figures = this.#lastRefresh.then(async () => {
      const counters = this.#admission.countersOf(subjects, this.#options.nowMs());
      for (let from = 0; from < counters.length; from += FIGURES_COUNTERS_MAX) {
        const some = counters.slice(from, from + FIGURES_COUNTERS_MAX);
        if (!(await this.#refreshCounters(some, untilMs))) return null;
      }
      return counters;
    });
    this.#lastRefresh = figures.catch(() => {});
    return figures;
  }

  /** Refreshes the figures of some counters. @returns whether all were refreshed in time. */
  async #refreshCounters(counters: readonly Counter[], untilMs: number): Promise<boolean> {
    if (this.#closed || performance.now() >= untilMs) return false;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#refresh = { counters: new Set(counters), resolve };
    const timeout = setTimeout(() => resolve(false), untilMs - performance.now());
    for (const counter of counters) counter.reportSoon();
    this.#start();
    try {
      return await promise;
    } finally {
      clearTimeout(timeout);
      this.#refresh = null;
    }
  }

  /** Returns all free units, for at most `graceMs`, and closes. */
  async close(graceMs: number): Promise<void> {
    clearInterval(this.#timer);
    if (graceMs > 0) {
      this.#admission.leases.recallAll();
      this.#start();
      await Promise.race([this.#running, new Promise((resolve) => setTimeout(resolve, graceMs).unref())]);
    }
    this.#closed = true;
    this.#refresh?.resolve(false);
    this.#admission.requestFailed();
    this.#admission.rejectWaiting();
    await this.#disconnect();
  }

  #start(): void {
    if (this.#closed) return;
    // While Postgres is unavailable, calls are rejected at once.
    if (this.#failures > 0) this.#admission.rejectWaiting();
    if (this.#running || this.#admission.urgency === 'none') return;
    this.#running = this.#run().finally(() => {
      this.#running = undefined;
      if (this.#admission.urgency !== 'none') this.#start();
    });
  }

  async #run(): Promise<void> {
    // The calls of one turn of the event loop share a request.
    await new Promise((resolve) => setImmediate(resolve));
    while (!this.#closed && this.#admission.urgency !== 'none') {
      if (this.#admission.urgency === 'after_pause')
        await new Promise((resolve) => setTimeout(resolve, RECALL_PAUSE_MS));
      await this.#exchange();
    }
  }

  async #exchange(): Promise<void> {
    const { nowMs, position, instance, onFenced, onError } = this.#options;
    try {
      const client = (this.#client ??= await this.#connect());
      const refresh = this.#refresh;
      const request = this.#admission.nextRequest(nowMs(), position());
      const counters = this.#admission.inFlight;
      if (request) {
        this.#exchanges++;
        const sentMs = performance.now();
        const response = await exchange(client, instance, request);
        this.#options.observer?.exchanged(performance.now() - sentMs);
        if (!this.#closed) this.#admission.applyResponse(response, nowMs());
      }
      if (refresh) advance(refresh, counters, minuteOf(nowMs()));
      this.#failures = 0;
    } catch (error) {
      this.#failures++;
      this.#admission.requestFailed();
      this.#admission.rejectWaiting();
      this.#refresh?.resolve(false);
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
    client.on('notification', ({ payload = '' }) => {
      const { leases } = this.#admission;
      if (payload.startsWith(ADJUSTED)) leases.adjusted(Number(payload.slice(ADJUSTED.length)));
      else leases.recall(Number(payload));
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

/** Removes the refreshed counters, and those of ended windows, of which Postgres reports nothing. */
function advance({ counters, resolve }: Refresh, refreshed: readonly Counter[], minute: number): void {
  for (const counter of refreshed) counters.delete(counter);
  for (const counter of counters) if (counter.end <= minute) counters.delete(counter);
  if (counters.size === 0) resolve(true);
}
