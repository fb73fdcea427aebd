import type { Pool } from 'pg';
import { type AccountKey, type Named, sealValue } from '#db/attribution/keys.ts';
import { deleteExpiredValues, storeValues } from '#db/attribution/store.ts';
import {
  EXPIRE_MS,
  STORE_BATCH_MAX,
  STORE_LINGER_MS,
  STORE_QUEUE_MAX,
  UNAVAILABLE_MS,
} from '#server/attribution/bounds.ts';

type Queued = Named & { key: AccountKey; value: string };

/** Stores new readable values in batches, off the path of the calls. */
export class ValueWriter {
  readonly #pool: Pool;
  readonly #onError: (error: unknown) => void;
  #queue: Queued[] = [];
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | null = null;
  #expiredAtMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  /** @param onError called when a batch could not be stored; it is retried. */
  constructor(pool: Pool, onError: (error: unknown) => void) {
    this.#pool = pool;
    this.#onError = onError;
  }

  /** @returns false if the queue is full: the value is not stored. */
  add(key: AccountKey, named: Named, value: string): boolean {
    if (this.#queue.length >= STORE_QUEUE_MAX || this.#isClosed) return false;
    this.#queue.push({ ...named, key, value });
    if (this.#writing === null) this.#timer ??= setTimeout(() => void this.flush(), STORE_LINGER_MS).unref();
    return true;
  }

  /** Removes what waits to be stored of an account, or only of one pseudonym. */
  forget(account: string, named?: Named): void {
    this.#queue = this.#queue.filter(
      ({ key, kind, pseudonym }) =>
        key.account !== account ||
        (named !== undefined && (kind !== named.kind || pseudonym !== named.pseudonym)),
    );
  }

  /** Stores all that waits. Never throws; after a failure the rest is retried later. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing ??= this.#write().finally(() => {
      this.#writing = null;
    });
    return this.#writing;
  }

  /** Stores what waits, once. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#writing;
    await this.flush();
    clearTimeout(this.#timer);
  }

  async #write(): Promise<void> {
    try {
      while (this.#queue.length > 0) await this.#storeBatch();
      await this.#expire();
    } catch (error) {
      this.#onError(error);
      if (!this.#isClosed) this.#timer ??= setTimeout(() => void this.flush(), UNAVAILABLE_MS).unref();
    }
  }

  /** Of one account, since the storing locks the account's key. */
  async #storeBatch(): Promise<void> {
    const client = await this.#pool.connect();
    try {
      const [first] = this.#queue;
      // All was removed while the connection was opened.
      if (first === undefined) return;
      const batch = this.#queue.filter(({ key }) => key === first.key).slice(0, STORE_BATCH_MAX);
      await storeValues(
        client,
        first.key,
        batch.map(({ kind, pseudonym, key, value }) => {
          const named = { kind, pseudonym };
          return { ...named, sealed: sealValue(key, named, value) };
        }),
      );
      const stored = new Set(batch);
      this.#queue = this.#queue.filter((each) => !stored.has(each));
    } finally {
      client.release();
    }
  }

  async #expire(): Promise<void> {
    const nowMs = performance.now();
    if (nowMs - this.#expiredAtMs < EXPIRE_MS) return;
    this.#expiredAtMs = nowMs;
    const client = await this.#pool.connect();
    try {
      await deleteExpiredValues(client);
    } finally {
      client.release();
    }
  }
}
