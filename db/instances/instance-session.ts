import type { Client, ClientBase } from 'pg';
import { RECOVERY_TIMEOUT_MS, REREGISTER_PAUSE_MS } from '#db/bounds.ts';
import type { OutputStatus } from '#db/diagnostics/droppable-output.ts';
import { standardOutput } from '#db/diagnostics/process-output.ts';
import { closeClient } from '#db/postgres/connect.ts';
import type { FencingGuard } from '#db/instances/fencing-guard.ts';
import { type Heartbeats, startHeartbeats, startHeartbeatsOn } from '#db/instances/heartbeats.ts';
import { type CallProgress, registerInstance, retireInstance } from '#db/instances/instance.ts';
import { type OutsideSession, watchOutsideSessions } from '#db/instances/outside-sessions.ts';
import { InstanceRecovery } from '#db/instances/instance-recovery.ts';

/**
 * A process that appends to the log does so as an instance: a number that is registered, kept alive by
 * heartbeats, and retired. Others declare an instance dead when its heartbeats stop ("fence" it), and recover
 * its open requests; from then on it can neither append nor spend.
 *
 * - *unregistered* → *active*: {@link InstanceSession.register} inserts the instance and starts its
 *   heartbeats.
 * - *active* → *fenced*: a heartbeat, or whatever else is refused as fenced and calls
 *   {@link InstanceSession.fence}, finds that the instance was declared dead.
 * - *fenced* → *active*: a session with connections of its own closes what belonged to the fenced instance
 *   and
 *   registers a new one, again and again until the database takes it. A session over a borrowed connection
 *   stays fenced: its owner closes the connection and begins with a new session.
 * - → *closed*: {@link InstanceSession.close} retires the instance, unless it leaves requests open, which
 *   others
 *   are to recover.
 *
 * A session with connections of its own also watches its peers, and recovers those that died.
 */
type State = 'unregistered' | 'active' | 'fenced' | 'closed';

export type InstanceSessionOptions = {
  /** What the instance is called where instances are listed, such as `server host 123`. */
  name: string;
  /** A factory for connections of its own, or the connection of the caller. */
  connection: ((timeoutMs?: number) => Promise<Client>) | ClientBase;
  /** The position in the log of its oldest open request; absent for an instance that never has any. */
  openFrom?: () => number | null;
  /** What its running calls are charged if it dies before the next heartbeat. */
  progress?: () => readonly CallProgress[];
  /** Kept informed of whether this process may still write for its instance. */
  guard?: FencingGuard;
  /** A new instance is registered: prepare what writes for it. Runs before the first heartbeat. */
  onRegistered?: (instance: number, client: ClientBase) => void | Promise<void>;
  /** The instance is active: it was registered and the first heartbeat was sent. */
  onActive?: () => void;
  /** The instance was declared dead. Runs once per instance, before `release`. */
  onFenced?: (instance: number) => void;
  /** Closes what writes for a fenced instance, before a new one is registered. */
  release?: () => Promise<void>;
  onPostgresClock?: (now: Date) => void;
  onDeadPeers?: (peers: readonly number[]) => void;
  /** A dead peer was recovered: so many of its requests were abandoned. */
  onRecovered?: (peer: number, abandoned: number) => void;
  /** A session of an outside login blocked Daybook's own, or kept a transaction open. */
  onOutsideSession?: (session: OutsideSession) => void;
  /** Failures that are retried or that others make up for, with a log line that names them. */
  onError?: (line: string, error: unknown) => void;
  /** The diagnostic output of this process; absent: standard output. */
  output?: () => OutputStatus;
};

export class InstanceSession {
  readonly #options: InstanceSessionOptions;
  #state: State = 'unregistered';
  #instance = 0;
  /** The newest instance that was found to be declared dead. */
  #fenced: number | undefined;
  #lastBatchNo = 0;
  #heartbeats: Heartbeats | undefined;
  #recovery: InstanceRecovery | undefined;
  #stopWatch: (() => Promise<void>) | undefined;
  /** A new registration after a fence, which closing waits for. */
  #reregistering: Promise<void> | undefined;

  constructor(options: InstanceSessionOptions) {
    this.#options = options;
  }

  /** The number of the newest registered instance. */
  get instance(): number {
    return this.#instance;
  }

  /**
   * The number of the next batch that {@link instance} appends: without gaps, and each one once, since a
   * number that comes twice is taken for a retry.
   */
  nextBatchNo(): number {
    this.#lastBatchNo += 1;
    return this.#lastBatchNo;
  }

  /** Registers an instance. Resolves when the first heartbeat over a connection of its own was sent. */
  async register(): Promise<void> {
    const { name, connection, guard, onRegistered, onActive } = this.#options;
    const client = typeof connection === 'function' ? await connection() : connection;
    let confirmedMs = performance.now();
    let instance: number;
    try {
      instance = await registerInstance(client, name);
      await onRegistered?.(instance, client);
    } finally {
      if (typeof connection === 'function') await closeClient(client as Client);
    }
    this.#instance = instance;
    this.#lastBatchNo = 0;
    if (this.#state !== 'closed') this.#state = 'active';
    await this.#startHeartbeats(instance, (sentMs) => {
      confirmedMs = sentMs;
    });
    if (this.#state !== 'active' || this.#instance !== instance) return;
    onActive?.();
    // Not earlier: until then callers would still find what belonged to the fenced instance.
    guard?.begin(confirmedMs);
  }

  /** To be called by whatever learns that an instance of this session was declared dead. */
  fence(instance: number): void {
    if (instance !== this.#instance || instance === this.#fenced) return;
    const { connection, guard, onFenced } = this.#options;
    this.#fenced = instance;
    guard?.fence();
    onFenced?.(instance);
    if (this.#state === 'closed') return;
    this.#state = 'fenced';
    if (typeof connection === 'function') this.#reregistering ??= this.#reregister();
  }

  /**
   * Ends the session. Never throws where the connections are its own.
   * @param settle runs while heartbeats go on. Resolves with whether nothing is left open, so that the
   * instance
   *   can be retired; otherwise it is left for others to recover, like one that was killed.
   * @throws whatever retiring throws over a borrowed connection.
   */
  async close(settle: () => Promise<boolean> = () => Promise.resolve(true)): Promise<void> {
    this.#state = 'closed';
    await this.#reregistering;
    const isSettled = await settle();
    await this.#stop();
    if (!isSettled) return;
    const { connection, onError } = this.#options;
    if (typeof connection !== 'function') return retireInstance(connection, this.#instance);
    try {
      // It closes the leases of up to a hundred thousand subjects, as recovery does.
      const client = await connection(RECOVERY_TIMEOUT_MS);
      await retireInstance(client, this.#instance);
      await closeClient(client);
    } catch (error) {
      onError?.('retiring the instance failed; another instance will recover it', error);
    }
  }

  async #startHeartbeats(instance: number, onConfirmed: (sentMs: number) => void): Promise<void> {
    const { connection, guard, openFrom = () => null, progress = () => [], ...on } = this.#options;
    const { output = () => standardOutput.status } = this.#options;
    const onFenced = (): void => this.fence(instance);
    if (typeof connection !== 'function') {
      this.#heartbeats = startHeartbeatsOn(connection, { instance, openFrom, onFenced });
      return;
    }
    const recovery = new InstanceRecovery({
      connect: () => connection(RECOVERY_TIMEOUT_MS),
      instance,
      onRecovered: (peer, abandoned) => on.onRecovered?.(peer, abandoned),
      onError: (error) => on.onError?.('recovering a dead instance failed; retrying', error),
    });
    this.#recovery = recovery;
    this.#stopWatch = watchOutsideSessions({
      connect: () => connection(),
      onSession: (session) => on.onOutsideSession?.(session),
    });
    this.#heartbeats = await startHeartbeats(() => connection(), {
      instance,
      openFrom,
      progress,
      onConfirmed: ({ sentMs, postgresNow }) => {
        onConfirmed(sentMs);
        guard?.confirm(sentMs, performance.now());
        on.onPostgresClock?.(postgresNow);
      },
      onFenced,
      onDeadPeers: (peers, nowMs) => {
        recovery.recover(peers, nowMs);
        on.onDeadPeers?.(peers);
      },
      onError: (error) => on.onError?.('heartbeat failed; retrying', error),
      output,
    });
  }

  async #reregister(): Promise<void> {
    // Not from within a heartbeat, whose end is waited for here.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#state === 'fenced') {
      await this.#stop();
      await this.#options.release?.();
      await this.#registerUntilTaken();
    }
    this.#reregistering = undefined;
  }

  async #registerUntilTaken(): Promise<void> {
    while (this.#state !== 'closed') {
      try {
        return await this.register();
      } catch (error) {
        this.#options.onError?.('registering a new instance failed; retrying', error);
        await new Promise((resolve) => setTimeout(resolve, REREGISTER_PAUSE_MS));
      }
    }
  }

  async #stop(): Promise<void> {
    await this.#heartbeats?.close();
    await this.#recovery?.close();
    await this.#stopWatch?.();
  }
}

/** Runs `use` as an instance of its own over the caller's connection, registered for as long as it takes. */
export async function withInstance<T>(
  client: ClientBase,
  name: string,
  use: (session: InstanceSession) => Promise<T>,
): Promise<T> {
  const session = new InstanceSession({ name, connection: client });
  await session.register();
  try {
    return await use(session);
  } finally {
    // It has nothing open. Where it can't be retired, others find it silent and end it.
    await session.close().catch(() => undefined);
  }
}
