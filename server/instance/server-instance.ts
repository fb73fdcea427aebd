import { hostname } from 'node:os';
import type { ClientBase } from 'pg';
import { FencingGuard, keepTicking } from '#db/instances/fencing-guard.ts';
import { outsideSessionLine } from '#db/instances/outside-sessions.ts';
import type { CallProgress } from '#db/instances/instance.ts';
import { InstanceSession } from '#db/instances/instance-session.ts';
import type { LostEvents } from '#db/log/acknowledged.ts';
import { readHead } from '#db/log/read.ts';
import type { Store } from '#db/postgres/connect.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { Appender } from '#server/instance/appender.ts';
import { LAST_ENDINGS_MS, LAST_REPORT_MS } from '#server/instance/bounds.ts';
import { LeaseClient } from '#server/limits/lease-client.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';
import type { CallObserver } from '#server/diagnostics/call-observer.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';

/** The appender and the lease client of one registered instance. */
export type ActiveInstance = { appender: Appender; limits: LeaseClient };

/** The instance of a server process. If it is fenced, the process registers a new one. */
export class ServerInstance {
  readonly #store: Store;
  readonly #readModel: ReadModel;
  readonly #log: Logger;
  readonly #observer: CallObserver | undefined;
  readonly #session: InstanceSession;
  #current: ActiveInstance | undefined;
  /** Whether this process may still write for its instance. */
  readonly guard = new FencingGuard();
  readonly #ticking = keepTicking(this.guard);
  /** What the running calls are charged if this process dies before the next heartbeat. */
  progress: () => readonly CallProgress[] = () => [];
  /** Called when the instance was fenced: its running calls must send nothing more to clients. */
  onFenced: () => void = () => {};
  /** Called when the database turns out to have lost events that it had acknowledged. */
  onLost: (lost: LostEvents) => void = () => {};
  /** Called when a new instance replaced a fenced one. */
  onReplaced: (instance: ActiveInstance) => void = () => {};

  /**
   * @param onRegistered called with the number of each instance that this process registers.
   * @param observer sees what its instances record.
   */
  constructor(
    store: Store,
    readModel: ReadModel,
    log: Logger,
    onRegistered: (instance: number) => void = () => {},
    observer?: CallObserver,
  ) {
    this.#observer = observer;
    this.#store = store;
    this.#readModel = readModel;
    this.#log = log;
    readModel.onAdjustment((subject) => this.#current?.limits.usageAdjusted(subject));
    this.#session = new InstanceSession({
      name: `server ${hostname()} ${process.pid}`,
      connection: (timeoutMs) => connectRelay(store, timeoutMs),
      guard: this.guard,
      openFrom: () => this.#openFrom(),
      progress: () => this.progress(),
      onRegistered: (instance, client) => {
        onRegistered(instance);
        return this.#open(instance, client);
      },
      onActive: () => {
        if (this.#current) this.onReplaced(this.#current);
      },
      onFenced: (instance) => {
        log.error({ instance }, 'instance fenced; its calls are cut, registering a new one');
        this.onFenced();
      },
      release: async () => {
        await this.#current?.appender.close(0);
        await this.#current?.limits.close(0);
      },
      onPostgresClock: (now) => readModel.setClock(now),
      onRecovered: (peer, abandoned) => {
        observer?.recovered(abandoned);
        log.warn({ instance: peer, abandoned }, 'dead instance recovered; its open requests were abandoned');
      },
      onOutsideSession: (session) => log.warn(...outsideSessionLine(session)),
      onError: (line, error) => log.warn(errorFields(error), line),
    });
  }

  async register(): Promise<ActiveInstance> {
    await this.#session.register();
    return this.#current as ActiveInstance;
  }

  /** Records the settled requests, returns the leases, and retires the instance. */
  async close(): Promise<void> {
    await this.#session.close(async () => {
      await this.#current?.appender.close(LAST_ENDINGS_MS);
      await this.#current?.limits.close(LAST_REPORT_MS);
      // Requests that could not be settled are left to recovery, like those of a killed instance.
      const isSettled = this.#current?.appender.isSettled === true;
      if (!isSettled)
        this.#log.warn('settled events not recorded before exit; recovery will abandon those requests');
      return isSettled;
    });
    this.#ticking.close();
  }

  async #open(instance: number, client: ClientBase): Promise<void> {
    const connect = () => connectRelay(this.#store);
    const observer = this.#observer;
    const onFenced = (): void => this.#session.fence(instance);
    const appender = new Appender({
      connect,
      instance,
      head: await readHead(client),
      observer,
      onFenced,
      onLost: (lost) => this.onLost(lost),
      onError: (problem, error) => this.#log.error({ problem, ...errorFields(error) }, 'append failed'),
    });
    const limits = new LeaseClient({
      connect,
      instance,
      nowMs: () => this.#readModel.nowMs(),
      position: () => appender.head,
      observer,
      onFenced,
      onError: (error) => this.#log.warn(errorFields(error), 'lease request failed; retrying'),
    });
    this.#current = { appender, limits };
  }

  /** An idle server's next request is appended after all events it has read, so recovery can start there. */
  #openFrom(): number | null {
    if (!this.#current) return null;
    const { isSettled, openFrom } = this.#current.appender;
    return isSettled ? Math.max(openFrom, this.#readModel.head) : openFrom;
  }
}
