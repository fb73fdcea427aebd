import { hostname } from 'node:os';
import { type Client, DatabaseError } from 'pg';
import { HEARTBEAT_MS } from '#db/bounds.ts';
import { closeClient, type Store } from '#db/postgres/connect.ts';
import { InstanceSession } from '#db/instances/instance-session.ts';
import { retireInstance } from '#db/instances/instance.ts';
import { ConflictError, FencedError } from '#db/log/append.ts';
import { connectRelay } from '#db/postgres/store.ts';
import {
  CHANGES_PER_HOUR_MAX,
  CONTROL_IDLE_MS,
  CONTROL_WAIT_MS,
  CONTROL_WAITING_MAX,
  CONTROL_WAITING_PER_MEMBER_MAX,
} from '#server/control/bounds.ts';
import { ChangeRate } from '#server/control/change-rate.ts';
import { type Priority, PriorityMutex } from '#server/control/priority-mutex.ts';
import { Control } from '#server/control/control.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { KeyedSemaphore } from '#server/control/keyed-semaphore.ts';
import { isStoreFault } from '#server/errors/store-fault.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';

const UNAVAILABLE = new ApiError('store_unavailable', {
  message: "The database can't be reached, so the change may not have been made. Check before you try again.",
});
const CROWDED = new ApiError('relay_overloaded', {
  message: 'Too many pending changes. Try again.',
});

const TOO_MANY = new ApiError('rate_limit_exceeded', {
  message:
    `You have ${CONTROL_WAITING_PER_MEMBER_MAX} pending changes, the maximum. ` +
    'Wait for a reply before the next one.',
});

const TOO_OFTEN = `You made ${CHANGES_PER_HOUR_MAX} changes within an hour, the maximum. Try again later.`;

/** Actors that aren't the program itself. */
const CALLER = /^(member|management_key)\//;

type Open = { client: Client; session: InstanceSession; isBroken: boolean };
type Use<T> = (control: Control, client: Client) => Promise<T>;

/**
 * Writes the changes that members make to accounts, keys and plans. It uses one instance session over one
 * connection, opened at the first change and closed after an idle time. The session has no requests and no
 * leases, so it takes no share of the limits.
 *
 * Changes are serialized. They are rejected when the queue is full or a change has waited too long. Sign-ins
 * and changes by administrators have a queue of their own with priority; all others are rate limited per
 * hour. When the connection fails or the instance is fenced, the session is closed and the next change opens
 * a new one. The old instance is retired as soon as the database is reachable, so that no peer has to recover
 * an instance without open requests.
 */
export class ControlWriter {
  readonly #store: Store;
  readonly #log: Logger;
  readonly #waitMs: number;
  #open: Open | null = null;
  /** Instances whose connection failed before they could be retired. */
  #stranded: number[] = [];
  readonly #mutex = new PriorityMutex();
  readonly #rate = new ChangeRate(CHANGES_PER_HOUR_MAX);
  readonly #waiting: Record<Priority, number> = { first: 0, ordinary: 0 };
  /** Pending changes per actor. */
  readonly #perActor = new KeyedSemaphore();
  #idle: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** @param waitMs how long a change may wait in the queue. */
  constructor(store: Store, log: Logger, waitMs = CONTROL_WAIT_MS) {
    this.#store = store;
    this.#log = log;
    this.#waitMs = waitMs;
  }

  /**
   * Runs one change. If the instance was fenced, nothing was written, and the change runs once more as a new
   * instance.
   * @param actor the actor recorded in the events: `member/<id>` or `management_key/<id>`.
   * @param lane `ordinary` for changes that any member may make; these are rate limited per hour.
   * @returns the result of `use`; 503 if the queue is full or the database is unavailable, 429 if the member
   *   has too many pending or recent changes.
   * @throws errors of `use` other than database failures.
   */
  async change<T>(actor: string, use: Use<T>, lane: Priority = 'first'): Promise<T | ApiError> {
    if (this.#isClosed) return new ApiError('shutting_down');
    const leave = this.#enter(actor, lane);
    if (leave instanceof ApiError) return leave;
    clearTimeout(this.#idle);
    let isGivenUp = false;
    const begun = Promise.withResolvers<void>();
    const turn = this.#mutex.run(lane, () => {
      begun.resolve();
      return isGivenUp ? UNAVAILABLE : this.#attempt(actor, use);
    });
    const patience = setTimeout(() => {
      isGivenUp = true;
      begun.resolve();
    }, this.#waitMs);
    try {
      await begun.promise;
      // The change before it is still waiting for the database.
      if (isGivenUp) return UNAVAILABLE;
      return await turn;
    } finally {
      clearTimeout(patience);
      leave();
    }
  }

  /** Enters the queue. @returns a function that leaves the queue, or the error that rejects the change. */
  #enter(actor: string, lane: Priority): (() => void) | ApiError {
    const leave = this.#perActor.acquire(
      `${lane} ${actor}`,
      CALLER.test(actor) ? CONTROL_WAITING_PER_MEMBER_MAX : Infinity,
    );
    if (!leave) return TOO_MANY;
    const refusal = this.#waiting[lane] >= CONTROL_WAITING_MAX ? CROWDED : this.#checkRate(actor, lane);
    if (refusal) {
      leave();
      return refusal;
    }
    this.#waiting[lane]++;
    return () => {
      this.#waiting[lane]--;
      leave();
      if (this.#isIdle) this.#closeWhenIdle();
    };
  }

  #checkRate(actor: string, lane: Priority): ApiError | null {
    const retryAfterMs = lane === 'ordinary' ? this.#rate.count(actor, performance.now()) : null;
    return retryAfterMs === null
      ? null
      : new ApiError('too_many_attempts', { message: TOO_OFTEN, retryAfterMs });
  }

  get #isIdle(): boolean {
    return this.#waiting.first + this.#waiting.ordinary === 0;
  }

  /** Closes the session in order, after the changes that are still queued. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#idle);
    await this.#mutex.run('ordinary', () => this.#closeSession());
    // If the database is unavailable, peers will retire them.
    await this.#retireOverNewConnection().catch(() => {});
  }

  async #attempt<T>(actor: string, use: Use<T>): Promise<T | ApiError> {
    for (let attempt = 1; ; attempt++) {
      let open: Open | null = null;
      try {
        open = await this.#openSession();
        return await use(new Control(open.client, open.session, actor), open.client);
      } catch (error) {
        // A rejected or conflicting change leaves the connection usable.
        if (error instanceof DecisionError || error instanceof ConflictError) throw error;
        if (open && !(await isClean(open.client, error))) this.#discard(open);
        if (error instanceof FencedError && attempt === 1) continue;
        if (!(error instanceof FencedError || isStoreFault(error))) throw error;
        this.#log.warn(errorFields(error), 'control write failed: database unavailable');
        return UNAVAILABLE;
      }
    }
  }

  async #openSession(): Promise<Open> {
    if (this.#open && !this.#open.isBroken) return this.#open;
    await this.#closeSession();
    const client = await connectRelay(this.#store);
    try {
      await this.#retireStranded(client);
      const broken = (): void => this.#discard(open);
      const session = new InstanceSession({
        name: `dashboard ${hostname()} ${process.pid}`,
        connection: client,
        onFenced: broken,
      });
      const open: Open = { client, session, isBroken: false };
      await session.register();
      client.on('error', broken);
      client.on('end', broken);
      this.#open = open;
      return open;
    } catch (error) {
      await closeClient(client);
      throw error;
    }
  }

  async #closeSession(): Promise<void> {
    const open = this.#open;
    this.#open = null;
    if (!open) return;
    const canRetire = !open.isBroken;
    const isRetired = await open.session
      .close(() => Promise.resolve(canRetire))
      .then(
        () => canRetire,
        () => false,
      );
    if (!isRetired) this.#stranded.push(open.session.instance);
    await closeClient(open.client);
  }

  /**
   * Marks the session as broken and closes it after the running change, because peers treat a silent instance
   * as dead.
   */
  #discard(open: Open): void {
    if (open.isBroken || this.#open !== open) return;
    open.isBroken = true;
    void this.#mutex.run('first', () => this.#cleanUp());
  }

  /**
   * Closes a broken session and retires its instance, retrying until the database accepts it. Never throws.
   */
  async #cleanUp(): Promise<void> {
    if (this.#open?.isBroken === true) await this.#closeSession().catch(() => {});
    if (this.#isClosed) return;
    await this.#retireOverNewConnection().catch(() => {
      setTimeout(() => void this.#mutex.run('first', () => this.#cleanUp()), HEARTBEAT_MS).unref();
    });
  }

  /** Retires stranded instances over a temporary connection. */
  async #retireOverNewConnection(): Promise<void> {
    if (this.#stranded.length === 0) return;
    const client = await connectRelay(this.#store);
    try {
      await this.#retireStranded(client);
    } finally {
      await closeClient(client);
    }
  }

  async #retireStranded(client: Client): Promise<void> {
    for (const instance of [...this.#stranded]) {
      await retireInstance(client, instance);
      this.#stranded = this.#stranded.filter((each) => each !== instance);
    }
  }

  /** Closes the session after an idle time, after any change that is queued meanwhile. */
  #closeWhenIdle(): void {
    if (this.#isClosed) return;
    this.#idle = setTimeout(() => {
      void this.#mutex.run('ordinary', async () => {
        if (this.#isIdle) await this.#closeSession().catch(() => {});
        await this.#cleanUp();
      });
    }, CONTROL_IDLE_MS);
    this.#idle.unref();
  }
}

/**
 * Whether a connection is still usable after a failed statement. It is after errors in the data (classes 22
 * and 23), once the transaction is rolled back; after any other error its state is unknown.
 */
async function isClean(client: Client, error: unknown): Promise<boolean> {
  if (!(error instanceof DatabaseError) || !['22', '23'].includes((error.code ?? '').slice(0, 2)))
    return false;
  return client.query('rollback').then(
    () => true,
    () => false,
  );
}
