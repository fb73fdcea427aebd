import { hostname } from 'node:os';
import type { Client } from 'pg';
import { RECOVERY_TIMEOUT_MS } from '#db/bounds.ts';
import { closeClient } from '#db/postgres/connect.ts';
import { registerInstance, retireInstance } from '#db/instances/instance.ts';
import { joinMembership, type Membership } from '#db/instances/membership.ts';
import { InstanceRecovery } from '#db/instances/instance-recovery.ts';
import { errorFields, type Logger } from './logger.ts';

const RETAKE_PAUSE_MS = 1_000;

/**
 * The worker's place among the instances. It has no requests, but what it writes for the dead needs
 * a number that is alive; and it watches the others, so that the last server's death is noticed
 * with only a worker left. That is a timer of this process and no job: a look is worth something
 * only with what the looks before it saw. When it is declared dead itself it takes a new number.
 */
export class Place {
  readonly #connect: (timeoutMs?: number) => Promise<Client>;
  readonly #log: Logger;
  #instance = 0;
  #batchNo = 0;
  #membership: Membership | undefined;
  #rescue: InstanceRecovery | undefined;
  #retaking: Promise<void> | undefined;
  #closed = false;
  #knownDead = new Set<number>();
  /** Called when another instance is seen to have died. */
  onDeath: () => void = () => undefined;

  constructor(connect: (timeoutMs?: number) => Promise<Client>, log: Logger) {
    this.#connect = connect;
    this.#log = log;
  }

  /** The number that is alive now. */
  get instance(): number {
    return this.#instance;
  }

  /** The number of the next batch that is appended under {@link instance}. */
  nextBatchNo(): number {
    this.#batchNo += 1;
    return this.#batchNo;
  }

  async take(): Promise<void> {
    const client = await this.#connect();
    const instance = await registerInstance(client, `worker ${hostname()} ${process.pid}`);
    await closeClient(client);
    this.#instance = instance;
    const rescue = new InstanceRecovery({
      connect: () => this.#connect(RECOVERY_TIMEOUT_MS),
      instance,
      onRecovered: (dead, abandoned) => this.noteRecovered(dead, abandoned),
      onError: (error) =>
        this.#log.warn(errorFields(error), 'recovering a dead instance failed; it is tried again'),
    });
    this.#rescue = rescue;
    this.#membership = await joinMembership({
      connect: () => this.#connect(),
      instance,
      openFrom: () => null,
      onClock: () => undefined,
      onAlive: () => undefined,
      onFenced: () => {
        if (this.#instance === instance) this.#retaking ??= this.#retake();
      },
      onDead: (dead, nowMs) => {
        rescue.look(dead, nowMs);
        const isNews = dead.some((id) => !this.#knownDead.has(id));
        this.#knownDead = new Set(dead);
        if (isNews) this.onDeath();
      },
      onError: (error) => this.#log.warn(errorFields(error), 'a heartbeat failed; it is tried again'),
    });
  }

  noteRecovered(dead: number, abandoned: number): void {
    this.#log.warn({ instance: dead, abandoned }, 'an instance is dead; what it left open was ended');
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#retaking;
    await this.#membership?.close();
    await this.#rescue?.close();
    try {
      const client = await this.#connect();
      await retireInstance(client, this.#instance);
      await closeClient(client);
    } catch (error) {
      this.#log.warn(errorFields(error), 'the worker could not be retired; another will end it');
    }
  }

  async #retake(): Promise<void> {
    this.#log.warn(
      { instance: this.#instance },
      'this worker was declared dead; it goes on under a new number',
    );
    // Not from within its own beat, which its closing waits for.
    await new Promise((resolve) => setImmediate(resolve));
    await this.#membership?.close();
    await this.#rescue?.close();
    while (!this.#closed) {
      try {
        await this.take();
        break;
      } catch (error) {
        this.#log.warn(errorFields(error), 'taking a new place failed; it is tried again');
        await new Promise((resolve) => setTimeout(resolve, RETAKE_PAUSE_MS));
      }
    }
    this.#retaking = undefined;
  }
}
