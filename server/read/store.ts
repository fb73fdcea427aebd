import { type ClientBase, type ClientConfig, DatabaseError, type Pool } from 'pg';
import { openPool } from '#db/postgres/connect.ts';
import type { ProjectionName } from '#db/projections/projection.ts';
import { readProjectionState } from '#db/projections/state.ts';
import { READ_CONNECTIONS_MAX, READS_PER_KEY_MAX, READS_WAITING_MAX } from '#server/read/bounds.ts';
import type { Freshness } from '#server/contract/parts.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { KeyedSemaphore } from '#server/control/keyed-semaphore.ts';
import { isStoreFault } from '#server/errors/store-fault.ts';

/** The source of a read: a projection and its tables. */
export type Source = {
  projection: ProjectionName;
  tables: readonly string[];
  /** Settings of the transaction, for queries whose plan needs them. */
  settings?: Readonly<Record<string, string>>;
};

const UNAVAILABLE = new ApiError('store_unavailable', {
  message: "Usage data is temporarily unavailable: the database can't be reached. Try again.",
});
const READS_BUSY = new ApiError('relay_overloaded', {
  message: 'Too many pending reads. Try again.',
});
/** The query timed out, though the database is available. */
const TOO_SLOW = new ApiError('query_timeout');
const QUERY_CANCELED = '57014';
const TOO_MANY_READS = new ApiError('rate_limit_exceeded', {
  message: `Too many concurrent reads: the maximum is ${READS_PER_KEY_MAX}. Wait for a reply and retry.`,
});

/**
 * The read API's own connections, so that readers never delay calls. Opened on demand and closed when idle.
 */
export class ReadStore {
  readonly #pool: Pool;
  /** Concurrent reads per reader. */
  readonly #places = new KeyedSemaphore();

  /** @param config of the relay's role, whose statement timeout ends slow reads. */
  constructor(config: ClientConfig) {
    this.#pool = openPool({ ...config, max: READ_CONNECTIONS_MAX });
  }

  /**
   * Counts a concurrent read.
   * @param holder `key/<id>` or `member/<id>`.
   * @returns a function that ends it, or an error if the reader has too many.
   */
  enter(holder: string): (() => void) | ApiError {
    return this.#places.acquire(holder, READS_PER_KEY_MAX) ?? TOO_MANY_READS;
  }

  /**
   * Reads within one snapshot, together with its freshness.
   * @returns an error if the database is unavailable, slow or busy.
   * @throws {Error} for a wrong query or a failure in `work`: a bug.
   */
  async read<T>(
    source: Source,
    work: (client: ClientBase, asOf: Freshness) => Promise<T>,
  ): Promise<{ asOf: Freshness; found: T } | ApiError> {
    if (this.#pool.waitingCount >= READS_WAITING_MAX) return READS_BUSY;
    try {
      const client = await this.#pool.connect();
      try {
        await client.query(beginning(source));
        const state = await readProjectionState(client, [source.projection]);
        const { position, head, parked } = state;
        const asOf: Freshness = {
          as_of: state.asOf?.toISOString() ?? null,
          position,
          behind: Math.max(0, head - position),
          parked,
        };
        const found = await work(client, asOf).catch((error: unknown) => {
          if ((error as { code?: unknown }).code !== QUERY_CANCELED) throw error;
          return TOO_SLOW;
        });
        if (found === TOO_SLOW) {
          client.release(true);
          return TOO_SLOW;
        }
        await client.query('commit');
        client.release();
        return { asOf, found: found as T };
      } catch (error) {
        // Its state is unknown, so it isn't reused.
        client.release(true);
        throw error;
      }
    } catch (error) {
      if (isStoreFault(error) || isTableGone(error)) return UNAVAILABLE;
      throw error;
    }
  }

  /** Waits for running reads, which their timeouts bound, and closes all connections. */
  async close(): Promise<void> {
    await this.#pool.end();
  }
}

/**
 * Locks the tables before the snapshot is taken: a rebuilt copy that replaces one in between would look empty
 * to it. No parallel workers, which would take cores from calls, and no JIT, which takes longer than the
 * read.
 */
function beginning({ tables, settings }: Source): string {
  const local = Object.entries({ jit: 'off', max_parallel_workers_per_gather: '0', ...settings }).map(
    ([name, value]) => `set local ${name} = '${value}'`,
  );
  const names = tables.map((table) => `projection.${table}`).join(', ');
  const lock = tables.length === 0 ? '' : `; lock table ${names} in access share mode`;
  return `begin isolation level repeatable read read only; ${local.join('; ')}${lock}`;
}

/** A table that was dropped by hand and is being rebuilt. */
const isTableGone = (error: unknown): boolean => error instanceof DatabaseError && error.code === '42P01';

/** 503 for data that comes from memory, while the log can't be read. @param data such as `Key data`. */
export function unavailable(data: string): ApiError {
  return new ApiError('store_unavailable', {
    message: `${data} is temporarily unavailable: the event log can't be read. Try again.`,
  });
}

export const LIMITS_UNAVAILABLE = new ApiError('store_unavailable', {
  message: "Limits are temporarily unavailable: the database can't be reached. Try again.",
});
