import { DatabaseError, type Client } from 'pg';
import { closeClient } from '#db/postgres/connect.ts';
import type { EventOf, RequestEvent } from '#db/events/events.ts';
import { AcknowledgedBatches, type LostEvents, LostEventsError } from '#db/log/acknowledged.ts';
import { appendRequests, FencedError, notifyReaders } from '#db/log/append.ts';
import {
  ACCEPT_QUEUE_MAX,
  APPEND_BATCH_MAX,
  GATHER_MAX_MS,
  NOTIFY_EVERY_MS,
  OVERLAPPED_LINGER_MS,
  SETTLE_LINGER_MAX_MS,
  SETTLE_LINGER_MS,
  SETTLE_QUEUE_MAX,
} from '#server/instance/bounds.ts';
import { NotificationPace } from '#server/instance/notification-pace.ts';
import { RECONNECT_FIRST_MS, RECONNECT_MAX_MS } from '#db/bounds.ts';
import type { CallObserver } from '#server/diagnostics/call-observer.ts';

/**
 * Group commit: many callers, one append.
 *
 * One batch is in flight at a time, and events queued meanwhile form the next one. So batches grow under load
 * and stay small and fast without it. The appender is in one of four modes:
 *
 * - *up*: batches are sent. An accepted event starts one at once; an event that no caller waits for lingers
 *   for some milliseconds so that more events share its commit. So does an accepted event in overlapped mode,
 *   until the reply begins.
 * - *down*: the database failed or timed out. Callers that wait for an accepted event are rejected, but their
 *   events stay in the batch, because the lost reply may have been a commit. The same batch is retried under
 *   the same number until the database replies, so it is written exactly once. New accepted events are
 *   rejected at once; settled events wait in a bounded queue.
 * - *fenced*: this instance was declared dead. Nothing can be written any more; the owner is notified, and
 *   must end the running calls.
 * - *closed*: after {@link Appender.close}.
 *
 * Order in the log is the order of the calls.
 */

/** The event could not be written. With `pending` it may still be written later. */
export class StoreUnavailable extends Error {
  override name = 'StoreUnavailable';
  readonly pending: boolean;
  constructor(pending: boolean) {
    super('the store is unavailable');
    this.pending = pending;
  }
}

type Accepted = EventOf<'request.accepted'>;
type Ending = EventOf<'request.settled'>;
/** Events that no caller waits for. */
type Note = EventOf<'request.extended' | 'request.rejected' | 'tokens.counted'>;
type Entry = {
  event: RequestEvent;
  resolve?: () => void;
  reject?: (error: Error) => void;
  written?: () => void;
};
type Mode = 'up' | 'down' | 'fenced' | 'closed';

export type AppenderOptions = {
  /** Opens a connection to the database with timeouts, so that a frozen server can't block the appender. */
  connect: () => Promise<Client>;
  instance: number;
  /** The position of the log's newest event when the instance was registered. */
  head: number;
  /** Called once when this instance turns out to be fenced. */
  onFenced: () => void;
  /** Called each time that the log turns out to lack acknowledged events: nothing is appended then. */
  onLost?: (lost: LostEvents) => void;
  /** Called with each failed attempt, and with events that had to be dropped. */
  onError: (problem: 'append_failed' | 'event_refused' | 'ending_dropped', error?: unknown) => void;
  /** Sees each event that is durable, and each append; absent: nothing does. */
  observer?: Pick<CallObserver, 'recorded' | 'appended'> | undefined;
};

export class Appender {
  readonly #options: AppenderOptions;
  #client: Client | undefined;
  #mode: Mode = 'up';
  #queue: Entry[] = [];
  #acceptsQueued = 0;
  #batchNo = 0;
  #working: Promise<void> | undefined;
  /** When the first of the queued events is to be sent; infinite without one. */
  #dueMs = Infinity;
  /** Sends them then, unless another event is sent before. */
  #linger: { timer: NodeJS.Timeout; atMs: number } | undefined;
  readonly #pace = new NotificationPace();
  readonly #acknowledged: AcknowledgedBatches;
  /** Notifies the readers of batches that didn't, unless another batch does before. */
  #lateNotice: NodeJS.Timeout | undefined;
  #head: number;
  /** Open requests of this instance with the position of their `accepted`, oldest first. */
  readonly #open = new Map<string, number>();

  constructor(options: AppenderOptions) {
    this.#options = options;
    this.#head = options.head;
    this.#acknowledged = new AcknowledgedBatches(options.instance);
  }

  /** The instance that it writes for. */
  get instance(): number {
    return this.#options.instance;
  }

  get mode(): Mode {
    return this.#mode;
  }

  /** Events that wait for their batch. */
  get queued(): number {
    return this.#queue.length;
  }

  /** Whether every accepted request has its ending in the log. */
  get isSettled(): boolean {
    return this.#open.size === 0 && this.#queue.length === 0 && this.#working === undefined;
  }

  /** The position of the last event known to be written: all `written` callbacks up to it were called. */
  get head(): number {
    return this.#head;
  }

  /** The position from which recovery starts: no open request of this instance was accepted before it. */
  get openFrom(): number {
    const oldest = this.#open.values().next();
    return oldest.done === true ? this.#head : oldest.value;
  }

  /**
   * Resolves when the event is durable.
   * @param mayLinger whether no caller waits for it until {@link flush}.
   * @throws {StoreUnavailable} when it is not; with `pending` it may still become durable, and the caller
   *   must settle the request.
   */
  accept(event: Accepted, mayLinger = false): Promise<void> {
    return this.#record(event, mayLinger ? OVERLAPPED_LINGER_MS : 0);
  }

  /** Sends the lingering events, since a caller waits for one of them now. */
  flush(): void {
    if (this.#queue.length > 0) this.#startWithin(0);
  }

  /**
   * Records the end of an accepted request as soon as the database accepts it.
   * @param written called when it is durable, which may be never.
   * @param mayLinger whether no other call needs the units that it returns soon.
   */
  settle(event: Ending, written: () => void = () => {}, mayLinger = false): void {
    this.#enqueue({ event, written }, mayLinger ? SETTLE_LINGER_MAX_MS : SETTLE_LINGER_MS);
  }

  /** Records an event of a request other than its start and its end. */
  note(event: Note): void {
    this.#enqueue({ event }, SETTLE_LINGER_MS);
  }

  /**
   * Resolves when the exchange of a token is durable.
   * @throws {StoreUnavailable} when it is not; with `pending` it may still become durable.
   */
  recordExchange(event: EventOf<'workload.exchanged'>): Promise<void> {
    return this.#record(event, 0);
  }

  #record(event: RequestEvent, lingerMs: number): Promise<void> {
    if (this.#mode !== 'up' || this.#acceptsQueued >= ACCEPT_QUEUE_MAX)
      return Promise.reject(new StoreUnavailable(false));
    return new Promise((resolve, reject) => {
      this.#queue.push({ event, resolve, reject });
      this.#acceptsQueued++;
      this.#startWithin(lingerMs);
    });
  }

  /** Records that a request is handed over to the background. @param written called when it is durable. */
  handOver(event: EventOf<'request.extended'> & { handed_over: true }, written: () => void): void {
    this.#enqueue({ event, written }, SETTLE_LINGER_MS);
  }

  #enqueue(entry: Entry, lingerMs: number): void {
    if (this.#mode === 'fenced') return;
    if (this.#queue.length >= SETTLE_QUEUE_MAX) {
      this.#options.onError('ending_dropped');
      return;
    }
    this.#queue.push(entry);
    this.#startWithin(lingerMs);
  }

  /** Writes the queued events and closes. Events not written within `graceMs` are dropped. */
  async close(graceMs: number): Promise<void> {
    const deadline = performance.now() + graceMs;
    this.#startWithin(0);
    while (this.#working !== undefined && performance.now() < deadline) {
      await Promise.race([this.#working, new Promise((resolve) => setTimeout(resolve, 50))]);
    }
    this.#mode = 'closed';
    // Queued events are never written now, so their callers must not wait.
    for (const { reject } of this.#queue) reject?.(new StoreUnavailable(false));
    this.#queue = [];
    if (this.#lateNotice !== undefined && this.#client) await notifyReaders(this.#client).catch(() => {});
    await this.#disconnect();
  }

  #startWithin(ms: number): void {
    this.#dueMs = Math.min(this.#dueMs, ms === 0 ? 0 : performance.now() + ms);
    this.#startWhenDue();
  }

  #startWhenDue(): void {
    if (this.#working !== undefined || this.#queue.length === 0) return;
    const pauseMs = this.#dueMs - performance.now();
    if (pauseMs <= 0) return this.#start();
    if (this.#linger !== undefined && this.#linger.atMs <= this.#dueMs) return;
    clearTimeout(this.#linger?.timer);
    this.#linger = { timer: setTimeout(() => this.#start(), Math.ceil(pauseMs)), atMs: this.#dueMs };
  }

  #start(): void {
    clearTimeout(this.#linger?.timer);
    this.#linger = undefined;
    this.#dueMs = 0;
    this.#working = turn()
      .then(() => this.#work())
      .finally(() => {
        this.#working = undefined;
        if (this.#mode === 'up' || this.#mode === 'down') this.#startWhenDue();
      });
  }

  async #work(): Promise<void> {
    while (this.#queue.length > 0 && this.#dueMs <= performance.now()) {
      await this.#gather();
      if (this.#mode === 'fenced' || this.#mode === 'closed') return;
      const batch = this.#queue.splice(0, APPEND_BATCH_MAX);
      if (this.#queue.length === 0) this.#dueMs = Infinity;
      for (const entry of batch) if (entry.resolve) this.#acceptsQueued--;
      await this.#write(batch);
    }
  }

  /**
   * Waits while each turn of the event loop adds events, so that under load more calls share a commit. A lone
   * call waits for one turn.
   */
  async #gather(): Promise<void> {
    const deadline = performance.now() + GATHER_MAX_MS;
    for (let seen = 0; seen < this.#queue.length && performance.now() < deadline;) {
      seen = this.#queue.length;
      await turn();
    }
  }

  /** Sends one batch until the database has written or rejected it. */
  async #write(batch: readonly Entry[]): Promise<void> {
    const batchNo = ++this.#batchNo;
    const events = batch.map(({ event }) => event);
    for (let failures = 0; this.#mode !== 'closed'; failures++) {
      try {
        this.#client ??= await this.#connect();
        if (this.mode === 'closed') break;
        const notifies = this.#notifies();
        const sentMs = performance.now();
        const last = await appendRequests(this.#client, this.#options.instance, batchNo, events, notifies);
        this.#options.observer?.appended(batch.length, performance.now() - sentMs);
        this.#acknowledged.add(batchNo, batch.length, last);
        this.#written(batch, last);
        if (this.#mode === 'down') this.#mode = 'up';
        return;
      } catch (error) {
        if (error instanceof FencedError) return this.#fence(batch);
        if (refusesTheEvents(error)) return this.#isolate(batch, error);
        this.#options.onError('append_failed', error);
        this.#goDown(batch);
        await this.#disconnect();
        await new Promise((resolve) =>
          setTimeout(resolve, Math.min(RECONNECT_MAX_MS, RECONNECT_FIRST_MS * 2 ** failures)),
        );
      }
    }
    // Closed with the outcome unknown: accepted events that may be in the log count as open.
    for (const { event, reject } of batch) {
      if (event.type === 'request.accepted') this.#open.set(event.request, this.#head);
      reject?.(new StoreUnavailable(true));
    }
    await this.#disconnect();
  }

  /** @throws {LostEventsError} when the database has lost events that it had acknowledged. */
  async #connect(): Promise<Client> {
    const client = await this.#options.connect();
    const lost = await this.#acknowledged.findLost(client).catch(async (error: unknown) => {
      await closeClient(client);
      throw error;
    });
    if (lost === null) return client;
    await closeClient(client);
    this.#options.onLost?.(lost);
    throw new LostEventsError(lost);
  }

  #notifies(): boolean {
    if (this.#pace.take(performance.now())) {
      clearTimeout(this.#lateNotice);
      this.#lateNotice = undefined;
      return true;
    }
    this.#lateNotice ??= setTimeout(() => {
      this.#lateNotice = undefined;
      // Readers poll as well, so a notification may be lost.
      if (this.#client && this.#mode === 'up') notifyReaders(this.#client).catch(() => {});
    }, NOTIFY_EVERY_MS).unref();
    return false;
  }

  #written(batch: readonly Entry[], last: number): void {
    let position = last - batch.length + 1;
    this.#head = last;
    const { observer } = this.#options;
    for (const { event, resolve, written } of batch) {
      if (event.type === 'request.accepted') this.#open.set(event.request, position);
      else if (event.type === 'request.settled' || isHandOver(event)) this.#open.delete(event.request);
      observer?.recorded(event, position);
      position++;
      written?.();
      resolve?.();
    }
  }

  #goDown(batch: readonly Entry[]): void {
    if (this.#mode !== 'closed') this.#mode = 'down';
    for (const { reject } of batch) reject?.(new StoreUnavailable(true));
    // Queued accepted events were not sent and never will be, so their outcome is certain.
    const waiting = this.#queue;
    this.#queue = waiting.filter(({ reject }) => !reject);
    this.#acceptsQueued = 0;
    for (const { reject } of waiting) reject?.(new StoreUnavailable(false));
  }

  #fence(batch: readonly Entry[]): void {
    this.#mode = 'fenced';
    for (const { reject } of [...batch, ...this.#queue]) reject?.(new StoreUnavailable(false));
    this.#queue = [];
    this.#acceptsQueued = 0;
    this.#options.onFenced();
  }

  /**
   * An invalid event must not fail the others of its batch: each is sent alone, the invalid one is rejected.
   */
  async #isolate(batch: readonly Entry[], error: unknown): Promise<void> {
    if (batch.length > 1) {
      for (const entry of batch) await this.#write([entry]);
      return;
    }
    if (this.#mode === 'down') this.#mode = 'up';
    this.#options.onError('event_refused', error);
    batch[0]?.reject?.(new StoreUnavailable(false));
  }

  async #disconnect(): Promise<void> {
    clearTimeout(this.#lateNotice);
    this.#lateNotice = undefined;
    const client = this.#client;
    this.#client = undefined;
    if (client) await closeClient(client);
  }
}

/** Whether another instance may end the request from here on. */
const isHandOver = (event: RequestEvent): boolean =>
  event.type === 'request.extended' && event.handed_over === true;

/** The next turn of the event loop, when all input that was ready has been handled. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** A missing partition is a fault of the database, not of the event; creating the partition resolves it. */
const NO_PARTITION = '23514';

/**
 * A number out of range for its column, which is detected before anything is sent, and the error classes 22
 * and 23: invalid data and violated constraints. A retry would fail again.
 */
function refusesTheEvents(error: unknown): boolean {
  if (error instanceof RangeError) return true;
  return error instanceof DatabaseError && /^2[23]/.test(error.code ?? '') && error.code !== NO_PARTITION;
}
