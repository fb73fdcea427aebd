import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { SHARD } from '#db/log/append.ts';
import type { ProjectionName } from '#db/projections/projection.ts';
import { db, type Placeholders, prepare, type Result, rowsOf } from '#db/schema/query.ts';

/**
 * The progress of the projections: rows read from them are as of `asOf`, with all events up to `position`.
 */
export type ProjectionState = {
  position: number;
  /** The time of the event at `position`; null before the first. */
  asOf: Date | null;
  /** The newest event of the log: `head - position` are not in the projections yet. */
  head: number;
  /** Parked events. */
  parked: number;
};

const read = prepare(
  'read_projection_state',
  ({ names }: Placeholders<{ names: readonly string[] | null }>) =>
    db
      .selectFrom('daybook.projection as p')
      .select(({ fn, selectFrom, val }) => [
        fn.min('p.position').as('position'),
        fn.min('p.position_at').as('as_of'),
        fn<Result<'daybook.head'>>('daybook.head', [val(SHARD)]).as('head'),
        selectFrom('daybook.parked_event as e')
          .select(({ fn: inner }) => inner.count<string>('e.position').distinct().as('parked'))
          .where(
            ({ ref }) => sql<boolean>`(${names}::text[] is null or ${ref('e.projection')} = any(${names}))`,
          )
          .as('parked'),
      ])
      .where(({ ref }) => sql<boolean>`(${names}::text[] is null or ${ref('p.name')} = any(${names}))`),
);

/**
 * The progress of the projections, of several that of the one furthest behind. Read it in the
 * transaction that reads the tables where both must match to the event.
 * @param names the projections that are read; all when absent.
 */
export async function readProjectionState(
  client: ClientBase,
  names?: readonly ProjectionName[],
): Promise<ProjectionState> {
  const [row] = await read(client, { names: names ?? null });
  // A projection at position 0 has no time, which `min` ignores.
  const position = Number(row?.position ?? 0);
  return {
    position,
    asOf: position === 0 ? null : (row?.as_of ?? null),
    head: Number(row?.head),
    parked: Number(row?.parked),
  };
}

/** One projection as an operator sees it. */
export type ProjectionStatus = {
  projection: string;
  position: number;
  /** Events of the log that are not applied yet. */
  behind: number;
  as_of: Date | null;
  /** Parked events. */
  parked: number;
  /** `detached`: it waits for a rebuild, and the others continue without it. */
  state: 'live' | 'detached';
  rebuilt_at: Date | null;
};

/** The progress of each projection. */
export async function readProjectionStatus(client: ClientBase): Promise<ProjectionStatus[]> {
  const query = db
    .selectFrom('daybook.projection as p')
    .select(['p.name', 'p.position', 'p.position_at', 'p.is_live', 'p.rebuilt_at'])
    .select([
      sql<string>`daybook.head(${SHARD})`.as('head'),
      sql<string>`(select count(*) from daybook.parked_event e where e.projection = p.name)`.as('parked'),
    ])
    .orderBy('p.name');
  return (await rowsOf(client, query)).map((row) => ({
    projection: row.name,
    position: Number(row.position),
    behind: Math.max(0, Number(row.head) - Number(row.position)),
    as_of: row.position_at,
    parked: Number(row.parked),
    state: row.is_live ? 'live' : 'detached',
    rebuilt_at: row.rebuilt_at,
  }));
}

/** The age of the first event not yet projected; the last projected event can be much older. */
export function selectUnprojected() {
  const slowest = db
    .selectFrom('daybook.projection')
    .select(({ fn }) => [fn.min('position').as('position'), sql<string>`daybook.head(${SHARD})`.as('head')]);
  return db.selectFrom(slowest.as('p')).select([
    sql<number>`(p.head - p.position)::float8`.as('events'),
    sql<number>`coalesce((select extract(epoch from statement_timestamp() - l.at) * 1000
      from daybook.log_batch l where l.shard = ${SHARD} and l.last_position > p.position
      order by l.last_position limit 1), 0)::float8`.as('ms'),
  ]);
}
