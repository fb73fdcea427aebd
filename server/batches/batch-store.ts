import type { ClientConfig, Pool, PoolClient } from 'pg';
import type { EventOf } from '#db/events/events.ts';
import {
  acceptBatch,
  type BatchLine,
  type BatchShortage,
  type FollowedBatch,
  hastenBatch,
  isBatchOpen,
  isFileInUse,
  knownBatches,
  noteOutput,
  postponeBatch,
  readBatchLines,
  readOpenLines,
  releaseBatch,
  settleBatch,
  takeDueBatches,
} from '#db/stored/batches.ts';
import type { StoredName } from '#db/stored/places.ts';
import type { CallObserver } from '#server/diagnostics/call-observer.ts';
import { isStoreFault } from '#server/errors/store-fault.ts';
import { openPool, withTimeout } from '#db/postgres/connect.ts';
import { ACCEPT_STATEMENT_MS, BATCH_TAKEN_MS } from '#server/batches/bounds.ts';
import { STORED_CONNECTIONS_MAX, STORED_IDLE_MS } from '#server/stored/bounds.ts';

type Observer = Pick<CallObserver, 'recordedApart'>;

/** Batches whose lines are not all settled, in the database. */
export class BatchStore {
  readonly #pool: Pool;
  /** Called when a batch of this process is or becomes due. */
  onDue: () => void = () => {};
  /** Batches that still have this process as their holder. */
  readonly #unreleased = new Map<string, { id: string | null; afterMs: number }>();

  readonly #observer: Observer | null;

  /** @param config of the relay's role. */
  constructor(config: ClientConfig, observer: Observer | null) {
    this.#observer = observer;
    this.#pool = openPool({
      ...withTimeout(config, ACCEPT_STATEMENT_MS),
      max: STORED_CONNECTIONS_MAX,
      idleTimeoutMillis: STORED_IDLE_MS,
    });
  }

  async accept(instance: number, batch: Parameters<typeof acceptBatch>[2]): Promise<BatchShortage | null> {
    const shortage = await this.#with((client) => acceptBatch(client, instance, batch));
    if (shortage === null) this.#observer?.recordedApart(batch.lines.map(({ event }) => event));
    return shortage;
  }

  /** Ends the lines that have no ending yet. */
  async settle(
    instance: number,
    batch: string,
    endings: readonly EventOf<'request.settled' | 'request.abandoned'>[],
  ): Promise<void> {
    const settled = await this.#with((client) => settleBatch(client, instance, batch, endings));
    this.#observer?.recordedApart(endings.filter(({ request }) => settled.has(request)));
  }

  /**
   * The provider has created it under this id, or is to be asked whether it has (null). It is retried until
   * it succeeds, or the instance that is creating the batch has ended.
   */
  async release(batch: string, id: string | null, afterMs: number): Promise<void> {
    this.#unreleased.set(batch, { id, afterMs });
    this.onDue();
    await this.releaseAll();
  }

  async releaseAll(): Promise<void> {
    for (const [batch, { id, afterMs }] of this.#unreleased) {
      try {
        await releaseBatch(this.#pool, batch, id, afterMs);
      } catch (error) {
        // Only what a retry can help is retried: not a provider that gives two batches one id.
        if (isStoreFault(error)) throw error;
      }
      this.#unreleased.delete(batch);
    }
  }

  /** A follower has found the batch at its provider. */
  found(batch: string, id: string): Promise<void> {
    return releaseBatch(this.#pool, batch, id, 0);
  }

  takeDue(instance: number, limit: number): Promise<FollowedBatch[]> {
    return takeDueBatches(this.#pool, instance, limit, BATCH_TAKEN_MS);
  }

  /** An instance goes on with a batch that it has taken. */
  keepTaken(instance: number, batch: string): Promise<void> {
    return postponeBatch(this.#pool, batch, BATCH_TAKEN_MS, instance);
  }

  postpone(batch: string, ms: number): Promise<void> {
    return postponeBatch(this.#pool, batch, ms);
  }

  async hasten(name: StoredName): Promise<void> {
    await hastenBatch(this.#pool, name);
    this.onDue();
  }

  noteOutput(name: StoredName, files: Parameters<typeof noteOutput>[2]): Promise<void> {
    return noteOutput(this.#pool, name, files);
  }

  /** Whether a batch that isn't settled has this file. */
  hasFile(name: StoredName): Promise<boolean> {
    return isFileInUse(this.#pool, name);
  }

  /** Whether lines of a batch have no ending yet. */
  isOpen(name: StoredName): Promise<boolean> {
    return isBatchOpen(this.#pool, name);
  }

  /** The lines with these ids that are not settled. */
  lines(batch: string, ids: readonly string[]): Promise<BatchLine[]> {
    return readBatchLines(this.#pool, batch, ids);
  }

  openLines(batch: string, limit: number): Promise<BatchLine[]> {
    return readOpenLines(this.#pool, batch, limit);
  }

  known(upstream: string, ids: readonly string[]): Promise<Set<string>> {
    return ids.length === 0 ? Promise.resolve(new Set()) : knownBatches(this.#pool, { upstream }, ids);
  }

  async close(): Promise<void> {
    await this.#pool.end();
  }

  async #with<T>(use: (client: PoolClient) => Promise<T>): Promise<T> {
    const client = await this.#pool.connect();
    try {
      return await use(client);
    } finally {
      client.release();
    }
  }
}
