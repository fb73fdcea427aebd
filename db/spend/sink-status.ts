import { type Selectable, sql } from 'kysely';
import type { ClientBase } from 'pg';
import { SHARD } from '#db/log/append.ts';
import { db, rowsOf } from '#db/schema/query.ts';
import type { SinkTable } from '#db/schema/tables.ts';

/** A sink with its lag, without its configuration. */
export type SinkStatus = Pick<
  Selectable<SinkTable>,
  | 'id'
  | 'name'
  | 'kind'
  | 'account'
  | 'created_at'
  | 'paused_at'
  | 'delivered_at'
  | 'failures'
  | 'failing_since'
  | 'fault'
  | 'retry_at'
  | 'test_requested_at'
  | 'tested_at'
  | 'test_fault'
> & {
  position: number;
  delivered: number;
  /** Positions of the log that it lacks, and the age of the oldest of them in ms. */
  behind: number;
  behind_ms: number;
};

/** The fault of a sink that a restore paused. */
export const RESTORED_FAULT = 'restored_from_backup';

/** `failing`: no delivery has succeeded since the last failed one. */
export type SinkState = 'active' | 'paused' | 'failing';

export function stateOfSink({ paused_at, failures }: Pick<SinkStatus, 'paused_at' | 'failures'>): SinkState {
  if (paused_at !== null) return 'paused';
  return failures > 0 ? 'failing' : 'active';
}

/** All sinks, by name. */
export async function readSinks(client: ClientBase): Promise<SinkStatus[]> {
  return rowsOf(
    client,
    db
      .selectFrom('daybook.sink as s')
      .select(['s.id', 's.name', 's.kind', 's.account', 's.created_at', 's.paused_at', 's.delivered_at'])
      .select(['s.failures', 's.failing_since', 's.fault', 's.retry_at'])
      .select(['s.test_requested_at', 's.tested_at', 's.test_fault'])
      .select([
        sql<number>`s.position::float8`.as('position'),
        sql<number>`s.delivered::float8`.as('delivered'),
        sql<number>`greatest(0, daybook.head(${SHARD}) - s.position)::float8`.as('behind'),
        sql<number>`coalesce((select extract(epoch from statement_timestamp() - l.at) * 1000
          from daybook.log_batch l where l.shard = ${SHARD} and l.last_position > s.position
          order by l.last_position limit 1), 0)::float8`.as('behind_ms'),
      ])
      .orderBy('s.name'),
  );
}
