import { hostname } from 'node:os';
import type { ClientBase } from 'pg';
import { FencingGuard, keepTicking } from '#db/instances/fencing-guard.ts';
import { InstanceSession } from '#db/instances/instance-session.ts';
import { readHead } from '#db/log/read.ts';
import type { Store } from '#db/postgres/connect.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { Appender } from '#server/instance/appender.ts';
import { LAST_ENDINGS_MS, LAST_REPORT_MS } from '#server/instance/bounds.ts';
import { LeaseClient } from '#server/limits/lease-client.ts';
import { errorFields, type Logger } from '#server/process/logger.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';

/** What one registered instance writes to the log with, and spends what it has leased with. */
export type ActiveInstance = { appender: Appender; limits: LeaseClient };

/**
 * The instance that a server process relays calls as. Where it is fenced, the process goes on as a new one.
 */
export class ServerInstance {
  readonly #store: Store;
  readonly #readModel: ReadModel;
  readonly #log: Logger;
  readonly #session: InstanceSession;
  #current: ActiveInstance | undefined;
  /** Whether this process may still write for its instance. */
  readonly guard = new FencingGuard();
  readonly #ticking = keepTicking(this.guard);
  /** The instance was fenced: nothing more of its running calls may reach a client. */
  onFenced: () => void = () => {};
  /** A new instance took the place of a fenced one. */
  onReplaced: (instance: ActiveInstance) => void = () => {};

  constructor(store: Store, readModel: ReadModel, log: Logger) {
    this.#store = store;
    this.#readModel = readModel;
    this.#log = log;
    this.#session = new InstanceSession({
      name: `server ${hostname()} ${process.pid}`,
      connection: (timeoutMs) => connectRelay(store, timeoutMs),
      guard: this.guard,
      openFrom: () => this.#openFrom(),
      onRegistered: (instance, client) => this.#open(instance, client),
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
      onRecovered: (peer, abandoned) =>
        log.warn({ instance: peer, abandoned }, 'dead instance recovered; its open requests were abandoned'),
      onError: (line, error) => log.warn(errorFields(error), line),
    });
  }

  async register(): Promise<ActiveInstance> {
    await this.#session.register();
    return this.#current as ActiveInstance;
  }

  /** Records what has ended, gives back the leases, and retires the instance. */
  async close(): Promise<void> {
    await this.#session.close(async () => {
      await this.#current?.appender.close(LAST_ENDINGS_MS);
      await this.#current?.limits.close(LAST_REPORT_MS);
      // What could not be settled is left to be recovered, like that of an instance that was killed.
      const isSettled = this.#current?.appender.isSettled === true;
      if (!isSettled)
        this.#log.warn('last request ends not recorded; another start will abandon those calls');
      return isSettled;
    });
    this.#ticking.close();
  }

  async #open(instance: number, client: ClientBase): Promise<void> {
    const connect = () => connectRelay(this.#store);
    const onFenced = (): void => this.#session.fence(instance);
    const appender = new Appender({
      connect,
      instance,
      head: await readHead(client),
      onFenced,
      onError: (problem, error) => this.#log.error({ problem, ...errorFields(error) }, 'append failed'),
    });
    const limits = new LeaseClient({
      connect,
      instance,
      nowMs: () => this.#readModel.nowMs(),
      position: () => appender.head,
      onFenced,
      onError: (error) => this.#log.warn(errorFields(error), 'lease request failed; retrying'),
    });
    this.#current = { appender, limits };
  }

  /** An idle server's next request comes behind all that it has read of the log: it delays no recovery. */
  #openFrom(): number | null {
    if (!this.#current) return null;
    const { isSettled, openFrom } = this.#current.appender;
    return isSettled ? Math.max(openFrom, this.#readModel.head) : openFrom;
  }
}
