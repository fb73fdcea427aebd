import { hostname } from 'node:os';
import { RECOVERY_TIMEOUT_MS } from '#db/bounds.ts';
import { closeClient, type Store } from '#db/postgres/connect.ts';
import { registerInstance, retireInstance } from '#db/instances/instance.ts';
import { readHead } from '#db/log/read.ts';
import { joinMembership, type Membership } from '#db/instances/membership.ts';
import { InstanceRecovery } from '#db/instances/instance-recovery.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { Appender } from '#server/instance/appender.ts';
import { keepTicking, FencingGuard } from '#server/instance/fencing-guard.ts';
import { LeaseClient } from '#server/limits/lease-client.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import { errorFields, type Logger } from '#server/process/logger.ts';
import { LAST_ENDINGS_MS, LAST_REPORT_MS } from '#server/instance/bounds.ts';

/** A registered instance of this process: it may append to the log, and spend the leases it holds. */
export type ActiveInstance = { appender: Appender; limits: LeaseClient };

/**
 * This process's place in the log: an instance that may append, and its membership. When it is
 * lost, because others thought us dead, a new one is taken under a new number.
 */
export class InstanceSession {
  readonly #store: Store;
  readonly #readModel: ReadModel;
  readonly #log: Logger;
  #instance = 0;
  #seat: ActiveInstance | undefined;
  #membership: Membership | undefined;
  #rescue: InstanceRecovery | undefined;
  /** Taking a new place under way, which leaving has to wait for. */
  #replacing: Promise<void> | undefined;
  #isLeaving = false;
  /** Whether this process may still speak for the instance that it has. */
  readonly life = new FencingGuard();
  readonly #ticking = keepTicking(this.life);
  /** The place is lost, and nothing more of what runs may reach a client. */
  onLost: () => void = () => {};
  /** A new one was taken after that. */
  onTaken: (seat: ActiveInstance) => void = () => {};

  constructor(store: Store, readModel: ReadModel, log: Logger) {
    this.#store = store;
    this.#readModel = readModel;
    this.#log = log;
  }

  async take(): Promise<ActiveInstance> {
    const client = await connectRelay(this.#store);
    let aliveMs = performance.now();
    const instance = await registerInstance(client, `server ${hostname()} ${process.pid}`);
    const head = await readHead(client);
    await closeClient(client);
    let lost = false;
    const onFenced = (): void => {
      if (lost) return;
      lost = true;
      this.life.lose();
      this.#log.error(
        { instance },
        'this instance was declared dead; its calls are cut and it starts again as a new one',
      );
      this.#replacing = this.#replace();
    };
    const appender = new Appender({
      connect: () => connectRelay(this.#store),
      instance,
      head,
      onFenced,
      onError: (problem, error) =>
        this.#log.error({ problem, ...errorFields(error) }, 'appending to the log failed'),
    });
    const limits = new LeaseClient({
      connect: () => connectRelay(this.#store),
      instance,
      nowMs: () => this.#readModel.nowMs(),
      position: () => appender.head,
      onFenced,
      onError: (error) => this.#log.warn(errorFields(error), 'asking for leases failed; it is tried again'),
    });
    this.#instance = instance;
    this.#seat = { appender, limits };
    const rescue = new InstanceRecovery({
      connect: () => connectRelay(this.#store, RECOVERY_TIMEOUT_MS),
      instance,
      onRecovered: (dead, abandoned) =>
        this.#log.warn(
          { instance: dead, abandoned },
          'another instance is dead; what it left open was ended',
        ),
      onError: (error) =>
        this.#log.warn(errorFields(error), 'recovering a dead instance failed; it is tried again'),
    });
    this.#rescue = rescue;
    this.#membership = await joinMembership({
      connect: () => connectRelay(this.#store),
      instance,
      // What an idle server accepts next comes behind all that it has seen of the log: it holds nobody up.
      openFrom: () =>
        appender.isSettled ? Math.max(appender.openFrom, this.#readModel.head) : appender.openFrom,
      onClock: (now) => this.#readModel.setClock(now),
      onAlive: (sentMs) => {
        aliveMs = sentMs;
        this.life.confirm(sentMs, performance.now());
      },
      onFenced,
      onDead: (dead, nowMs) => rescue.look(dead, nowMs),
      onError: (error) => this.#log.warn(errorFields(error), 'a heartbeat failed; it is tried again'),
    });
    // Not before: until then calls would still find the place that was lost.
    if (!lost) this.life.begin(aliveMs);
    return this.#seat;
  }

  async #replace(): Promise<void> {
    this.onLost();
    await this.#membership?.close();
    await this.#rescue?.close();
    await this.#seat?.appender.close(0);
    await this.#seat?.limits.close(0);
    while (!this.#isLeaving) {
      try {
        return this.onTaken(await this.take());
      } catch (error) {
        this.#log.warn(errorFields(error), 'taking a new place in the log failed; it is tried again');
        await new Promise((resolve) => setTimeout(resolve, 1_000));
      }
    }
  }

  async leave(): Promise<void> {
    this.#isLeaving = true;
    await this.#replacing;
    const { appender, limits } = this.#seat ?? {};
    await appender?.close(LAST_ENDINGS_MS);
    await limits?.close(LAST_REPORT_MS);
    await this.#membership?.close();
    await this.#rescue?.close();
    this.#ticking.close();
    // What could not be settled is left to be recovered, like that of an instance that was killed.
    if (appender?.isSettled !== true) {
      this.#log.warn('the last endings could not be recorded; another start will end those calls');
      return;
    }
    try {
      const client = await connectRelay(this.#store);
      await retireInstance(client, this.#instance);
      await closeClient(client);
    } catch (error) {
      this.#log.warn(errorFields(error), 'the instance could not be retired; another will end it');
    }
  }
}
