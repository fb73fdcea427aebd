import type { Client } from 'pg';
import { RECOVERY_PATIENCE_MS } from '#db/bounds.ts';
import { closeClient } from '#db/postgres/connect.ts';
import { recoverInstance, requestRecovery } from '#db/instances/instance.ts';

/**
 * Sees to it that what dead instances left open is ended. The first to notice fences the dead one
 * and asks a worker, so that a search of the log doesn't cost the servers anything. Where no worker
 * lives, or where it has not done it ten seconds later, the one who noticed does it itself: a relay
 * must not stay stuck because something beside it is down. Doing it twice changes nothing.
 */
export type InstanceRecoveryOptions = {
  /** Opens a connection that may wait long: it searches the log. */
  connect: () => Promise<Client>;
  /** Who ends the calls of the dead. */
  instance: number;
  onRecovered: (dead: number, abandoned: number) => void;
  onError: (error: unknown) => void;
};

type Case = { askedMs: number | null; running: boolean };

export class InstanceRecovery {
  readonly #options: InstanceRecoveryOptions;
  #cases = new Map<number, Case>();
  readonly #running = new Set<Promise<void>>();

  constructor(options: InstanceRecoveryOptions) {
    this.#options = options;
  }

  /** Told once a second who is dead and has still something open. Returns at once. */
  look(dead: readonly number[], nowMs: number): void {
    const cases = new Map<number, Case>();
    for (const id of dead) {
      const known = this.#cases.get(id) ?? { askedMs: null, running: false };
      cases.set(id, known);
      if (known.running || (known.askedMs !== null && nowMs - known.askedMs < RECOVERY_PATIENCE_MS)) continue;
      this.#start(id, known, nowMs);
    }
    this.#cases = cases;
  }

  /** Waits for what is under way. */
  async close(): Promise<void> {
    await Promise.all(this.#running);
  }

  #start(dead: number, known: Case, nowMs: number): void {
    known.running = true;
    const work = this.#work(dead, known, nowMs)
      .catch(this.#options.onError)
      .finally(() => {
        known.running = false;
        this.#running.delete(work);
      });
    this.#running.add(work);
  }

  async #work(dead: number, known: Case, nowMs: number): Promise<void> {
    const { connect, instance, onRecovered } = this.#options;
    const client = await connect();
    try {
      if (known.askedMs === null && (await requestRecovery(client, dead))) {
        known.askedMs = nowMs;
        return;
      }
      onRecovered(dead, await recoverInstance(client, dead, instance));
    } finally {
      await closeClient(client);
    }
  }
}
