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
import { errorFields, type Logger } from '#server/process/logger.ts';

const UNAVAILABLE = new ApiError('store_unavailable', {
  message: "The database can't be reached, so the change may not have been made. Check before you try again.",
});
const CROWDED = new ApiError('relay_overloaded', {
  message: 'Too many pending changes. Try again.',
});

const TOO_MANY = new ApiError('rate_limit_exceeded', {
  message: `You have ${CONTROL_WAITING_PER_MEMBER_MAX} pending changes, the maximum. Wait for a reply before the next one.`,
});

const TOO_OFTEN = `You made ${CHANGES_PER_HOUR_MAX} changes within an hour, the maximum. Try again later.`;

type Open = { client: Client; session: InstanceSession; isBroken: boolean };
type Use<T> = (control: Control, client: Client) => Promise<T>;

/**
 * Makes the changes of members to accounts, keys and plans: one instance session over one connection, opened
 * at the first change and closed when it was idle for a while. It has no requests and no leases, so limits
 * are not divided by it.
 *
 * Changes are serialized; they are rare, and are rejected when the queue is full or a change has waited for
 * too long. Sign-ins and changes by administrators have a queue of their own, which goes first; all others
 * are limited per hour. A connection that failed, or an instance that was fenced, is closed, and the next
 * change begins with a new session; the old instance is retired as soon as the database can be reached, so
 * that no peer has to recover an instance without open requests.
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
  /** The same by who makes them. */
  readonly #places = new KeyedSemaphore();
  #idle: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** @param waitMs how long a change waits for those before it. */
  constructor(store: Store, log: Logger, waitMs = CONTROL_WAIT_MS) {
    this.#store = store;
    this.#log = log;
    this.#waitMs = waitMs;
  }

  /**
   * Runs one change. Where the instance turns out to be declared dead, nothing was written, and it
   * is run once more as another.
   * @param actor who makes it, as the events tell: `member/<id>`.
   * @param lane `ordinary` for what anybody may do as often as they like, who is therefore held to so many in
   * an hour.
   * @returns what `use` returns; 503 where too many wait or the store is away, 429 where it is the person's
   * turn to wait.
   * @throws whatever `use` throws that is no fault of the store.
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
      return isGivenUp ? UNAVAILABLE : this.#carryOut(actor, use);
    });
    const patience = setTimeout(() => {
      isGivenUp = true;
      begun.resolve();
    }, this.#waitMs);
    try {
      await begun.promise;
      // Its turn never comes: whoever is before it waits for the store.
      if (isGivenUp) return UNAVAILABLE;
      return await turn;
    } finally {
      clearTimeout(patience);
      leave();
    }
  }

  /** Takes a place among those who wait. @returns what gives it back, or why there is none. */
  #enter(actor: string, lane: Priority): (() => void) | ApiError {
    const leave = this.#places.acquire(
      `${lane} ${actor}`,
      actor.startsWith('member/') ? CONTROL_WAITING_PER_MEMBER_MAX : Infinity,
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
      if (this.#isIdle) this.#rest();
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

  /** Leaves in order. What still waits is carried out before. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#idle);
    await this.#mutex.run('ordinary', () => this.#leave());
    // Where the store is away, others will end them.
    await this.#retireFromAside().catch(() => {});
  }

  async #carryOut<T>(actor: string, use: Use<T>): Promise<T | ApiError> {
    for (let attempt = 1; ; attempt++) {
      let open: Open | null = null;
      try {
        open = await this.#opened();
        return await use(new Control(open.client, open.session, actor), open.client);
      } catch (error) {
        // What was decided says nothing against the connection.
        if (error instanceof DecisionError || error instanceof ConflictError) throw error;
        if (open && !(await isClean(open.client, error))) this.#break(open);
        if (error instanceof FencedError && attempt === 1) continue;
        if (!(error instanceof FencedError || isStoreFault(error))) throw error;
        this.#log.warn(errorFields(error), 'control write failed: database unavailable');
        return UNAVAILABLE;
      }
    }
  }

  async #opened(): Promise<Open> {
    if (this.#open && !this.#open.isBroken) return this.#open;
    await this.#leave();
    const client = await connectRelay(this.#store);
    try {
      await this.#retireStranded(client);
      const broken = (): void => this.#break(open);
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

  async #leave(): Promise<void> {
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
   * Leaves a connection behind whatever is under way on it: others would take an instance that is silent for
   * dead.
   */
  #break(open: Open): void {
    if (open.isBroken || this.#open !== open) return;
    open.isBroken = true;
    void this.#mutex.run('first', () => this.#clear());
  }

  /**
   * Leaves what is broken and retires what it left, again and again until the store takes it. Never throws.
   */
  async #clear(): Promise<void> {
    if (this.#open?.isBroken === true) await this.#leave().catch(() => {});
    if (this.#isClosed) return;
    await this.#retireFromAside().catch(() => {
      setTimeout(() => void this.#mutex.run('first', () => this.#clear()), HEARTBEAT_MS).unref();
    });
  }

  /** Retires what was left broken, over a connection for the moment. */
  async #retireFromAside(): Promise<void> {
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

  /** Leaves when nobody has changed anything for a while, behind whatever comes in between. */
  #rest(): void {
    if (this.#isClosed) return;
    this.#idle = setTimeout(() => {
      void this.#mutex.run('ordinary', async () => {
        if (this.#isIdle) await this.#leave().catch(() => {});
        await this.#clear();
      });
    }, CONTROL_IDLE_MS);
    this.#idle.unref();
  }
}

/**
 * Whether a connection is as good as before, although a statement was refused: what it was asked was
 * wrong, and whatever it had begun is rolled back. Of all else nobody knows what state it is left in.
 */
async function isClean(client: Client, error: unknown): Promise<boolean> {
  if (!(error instanceof DatabaseError) || !['22', '23'].includes((error.code ?? '').slice(0, 2)))
    return false;
  return client.query('rollback').then(
    () => true,
    () => false,
  );
}
