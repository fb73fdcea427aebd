import { type ClientBase, type ClientConfig, DatabaseError, type Pool } from 'pg';
import { openPool } from '#db/postgres/connect.ts';
import type { ProjectionName } from '#db/projections/projection.ts';
import { readProjectionState } from '#db/projections/state.ts';
import { READ_CONNECTIONS_MAX, READS_PER_KEY_MAX, READS_WAITING_MAX } from '#server/read/bounds.ts';
import type { Freshness } from '#server/contract/parts.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { KeyedSemaphore } from '#server/control/keyed-semaphore.ts';
import { isStoreFault } from '#server/errors/store-fault.ts';

/** What is read, in the words of the schema: the projection, and the tables that are asked. */
export type Source = {
  projection: ProjectionName;
  tables: readonly string[];
  /** Settings of the transaction, where Postgres has to be told how to go about it. */
  settings?: Readonly<Record<string, string>>;
};

const UNAVAILABLE = new ApiError('store_unavailable', {
  message: "Usage data is temporarily unavailable: the database can't be reached. Try again.",
});
const READS_BUSY = new ApiError('relay_overloaded', {
  message: 'Too many pending reads. Try again.',
});
/** What was asked took too long, though the store is well. */
const TOO_SLOW = new ApiError('query_timeout');
const QUERY_CANCELED = '57014';
const TOO_MANY_READS = new ApiError('rate_limit_exceeded', {
  message: `Too many concurrent reads: a key or member may have ${READS_PER_KEY_MAX}. Wait for a reply and retry.`,
});

/**
 * The read API's own few connections to the store, so that no reader ever waits in the way of a
 * call. They are opened when somebody reads, and closed again when nobody does.
 */
export class ReadStore {
  readonly #pool: Pool;
  /** Reads under way. */
  readonly #places = new KeyedSemaphore();

  /** @param config of the relay's role, whose time-outs end a read that takes too long. */
  constructor(config: ClientConfig) {
    this.#pool = openPool({ ...config, max: READ_CONNECTIONS_MAX });
  }

  /**
   * Counts a read of a key or a person.
   * @param holder `key/<id>` or `member/<id>`.
   * @returns what ends it, or why they may not read now.
   */
  enter(holder: string): (() => void) | ApiError {
    return this.#places.take(holder, READS_PER_KEY_MAX) ?? TOO_MANY_READS;
  }

  /**
   * Reads within one snapshot, together with the moment that the rows are of.
   * @returns a refusal where the store is away, too slow or too busy.
   * @throws {Error} when the question itself was wrong, or `work` went wrong: a fault of ours.
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
        // Whatever state it is in, the next reader gets another one.
        client.release(true);
        throw error;
      }
    } catch (error) {
      if (isStoreFault(error) || isTableGone(error)) return UNAVAILABLE;
      throw error;
    }
  }

  /** Waits for the reads under way, which their time-outs bound, and closes all connections. */
  async close(): Promise<void> {
    await this.#pool.end();
  }
}

/**
 * The tables, where there are any, are locked before the snapshot is taken: a rebuilt copy that is put in
 * their place in between would look empty to it. Reading is left to one process, so that the calls keep the
 * cores, and is not compiled first, which takes longer than the reading.
 */
function beginning({ tables, settings }: Source): string {
  const local = Object.entries({ jit: 'off', max_parallel_workers_per_gather: '0', ...settings }).map(
    ([name, value]) => `set local ${name} = '${value}'`,
  );
  const names = tables.map((table) => `projection.${table}`).join(', ');
  const lock = tables.length === 0 ? '' : `; lock table ${names} in access share mode`;
  return `begin isolation level repeatable read read only; ${local.join('; ')}${lock}`;
}

/** A table that was dropped by hand, and is being rebuilt. */
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
