import type { Client } from 'pg';
import { RECOVERY_PATIENCE_MS } from '#db/bounds.ts';
import { closeClient } from '#db/postgres/connect.ts';
import { recoverInstance, requestRecovery } from '#db/instances/instance.ts';

export type InstanceRecoveryOptions = {
  /** Opens a connection with a long statement timeout: recovery searches the log. */
  connect: () => Promise<Client>;
  /** The instance that appends the endings of abandoned requests. */
  instance: number;
  onRecovered: (dead: number, abandoned: number) => void;
  onError: (error: unknown) => void;
};

type Recovery = { queuedMs: number | null; running: boolean };

/**
 * Recovers dead instances. The first peer that detects a death fences the instance and queues a job for a
 * worker, so that the search of the log does not burden the servers. If no worker lives, or none has
 * recovered the instance after RECOVERY_PATIENCE_MS, the peer recovers it itself: a relay must not be blocked
 * because another process is down. Recovery is idempotent.
 */
export class InstanceRecovery {
  readonly #options: InstanceRecoveryOptions;
  #recoveries = new Map<number, Recovery>();
  readonly #running = new Set<Promise<void>>();

  constructor(options: InstanceRecoveryOptions) {
    this.#options = options;
  }

  /** Starts the recovery of dead instances. Called once a second with all of them; does not wait. */
  recover(dead: readonly number[], nowMs: number): void {
    const recoveries = new Map<number, Recovery>();
    for (const id of dead) {
      const known = this.#recoveries.get(id) ?? { queuedMs: null, running: false };
      recoveries.set(id, known);
      if (known.running || (known.queuedMs !== null && nowMs - known.queuedMs < RECOVERY_PATIENCE_MS))
        continue;
      this.#start(id, known, nowMs);
    }
    this.#recoveries = recoveries;
  }

  /** Waits for the recoveries in progress. */
  async close(): Promise<void> {
    await Promise.all(this.#running);
  }

  #start(dead: number, known: Recovery, nowMs: number): void {
    known.running = true;
    const work = this.#work(dead, known, nowMs)
      .catch(this.#options.onError)
      .finally(() => {
        known.running = false;
        this.#running.delete(work);
      });
    this.#running.add(work);
  }

  async #work(dead: number, known: Recovery, nowMs: number): Promise<void> {
    const { connect, instance, onRecovered } = this.#options;
    const client = await connect();
    try {
      if (known.queuedMs === null && (await requestRecovery(client, dead))) {
        known.queuedMs = nowMs;
        return;
      }
      onRecovered(dead, await recoverInstance(client, dead, instance));
    } finally {
      await closeClient(client);
    }
  }
}
