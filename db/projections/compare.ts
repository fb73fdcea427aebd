import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { analyzeCopy, type CopyOptions, createCopy, extendCopy, applyPage } from '#db/projections/copy.ts';
import { PROJECTING } from '#db/projections/project.ts';
import { LIVE_SCHEMA, type Projection } from '#db/projections/projection.ts';
import type { Parked } from '#db/projections/page/page.ts';
import { primaryKey } from '#db/schema/catalog.ts';
import { db, onlyRowOf, rowOf, rowsOf } from '#db/schema/query.ts';
import type { Tables } from '#db/schema/tables.ts';

/**
 * Compares a projection with a replay of the log into temporary tables of this session. A read-only
 * role can do it, and a killed session leaves nothing behind.
 */

/** The number of differing rows to list. */
const DIFFERENCES_SHOWN = 20;

/** Temporary tables are cached per session; with the default of 8 MB each page would go to disk. */
const TEMP_BUFFERS = '128MB';

/** A row that differs from the log. */
export type Difference = {
  table: string;
  /** The row's primary key. */
  key: Record<string, string | null>;
  /** `missing`: only in the replay; `surplus`: only in the projection. */
  kind: 'missing' | 'surplus' | 'changed';
  /** The columns that differ. */
  columns: { column: string; projected: string | null; replayed: string | null }[];
};

export type Comparison = {
  projection: string;
  /** The position of both. */
  position: number;
  rows: number;
  /** The number of rows that differ; the first ones are in `differences`. */
  differing: number;
  differences: Difference[];
  /** Faults of the projection as a whole. */
  faults: string[];
};

/** Whether every row matches the log. */
export const isEqual = ({ differing, faults }: Comparison): boolean => differing === 0 && faults.length === 0;

/**
 * Compares a projection with a replay of the log, row by row, at one position.
 * @param client a connection of any role that reads both, with nothing else on it and long time-outs.
 * @throws {GapError | ArchivedError} when the log is not whole.
 */
export async function compare(
  client: ClientBase,
  projection: Projection,
  options: Pick<CopyOptions, 'signal' | 'onPage'> = {},
): Promise<Comparison> {
  const copy: CopyOptions = { projection, schema: 'pg_temp', ...options };
  // Fails once the session has used temporary tables; the setting of then is kept.
  await client.query(`set temp_buffers = '${TEMP_BUFFERS}'`).catch(() => undefined);
  await createCopy(client, copy);
  const reached = Number((await readState(client, projection)).position);
  // The long part uses no snapshot, which would keep vacuum from cleaning up behind the appends.
  const parked = await extendCopy(client, copy, { after: 0, upTo: reached });
  await client.query(
    `begin isolation level repeatable read; ${PROJECTING}; set local search_path = pg_temp, daybook`,
  );
  try {
    const state = await readState(client, projection);
    const position = Number(state.position);
    const found: Comparison = {
      projection: projection.name,
      position,
      rows: 0,
      differing: 0,
      differences: [],
      faults: [],
    };
    if (!state.is_live || position < reached) found.faults.push('it is detached and waits for a rebuild');
    else parked.push(...(await applyPage(client, projection, { after: reached, upTo: position })));
    await analyzeCopy(client, copy);
    found.faults.push(...(await compareParked(client, projection, parked)));
    for (const table of projection.tables) await compareTable(client, copy, table, state.kept_from, found);
    return found;
  } finally {
    await client.query('rollback');
  }
}

async function readState(client: ClientBase, { name }: Projection) {
  const query = db
    .selectFrom('daybook.projection')
    .select(['position', 'is_live', sql<string>`kept_from::text`.as('kept_from')])
    .where('name', '=', name);
  return (await rowOf(client, query)) ?? { position: '0', is_live: false, kept_from: '-infinity' };
}

async function compareParked(
  client: ClientBase,
  { name }: Projection,
  parked: readonly Parked[],
): Promise<string[]> {
  const query = db
    .selectFrom('daybook.parked_event')
    .select('position')
    .where('projection', '=', name)
    .orderBy('position');
  const live = (await rowsOf(client, query)).map(({ position }) => Number(position));
  const fresh = parked.map(({ position }) => position).toSorted((left, right) => left - right);
  if (live.join() === fresh.join()) return [];
  return [`it has ${live.length} parked events, a replay ${fresh.length}`];
}

/** A row as JSON of texts by column; the tables are values, so the columns are not known here. */
type Values = Record<string, string | null>;
type DifferingRow = { projected: Values | null; replayed: Values | null };

const asText = (row: 'p' | 'r') =>
  sql<Values | null>`(select jsonb_object_agg(key, value) from jsonb_each_text(to_jsonb(${sql.raw(row)})))`;
const oidOf = (table: string) => sql<number | null>`to_regclass(${table})::oid`;

async function compareTable(
  client: ClientBase,
  { projection }: CopyOptions,
  table: string,
  keptFrom: string,
  found: Comparison,
): Promise<void> {
  const live = `${LIVE_SCHEMA}.${table}`;
  if ((await onlyRowOf(client, db.selectNoFrom(oidOf(live).as('oid')))).oid === null) {
    found.faults.push(`its table ${table} is missing`);
    return;
  }
  const columns = await rowsOf(client, primaryKey(oidOf(`pg_temp.${table}`)));
  const key = columns.map(({ attname }) => attname);
  const kept = projection.kept?.find((each) => each.table === table);
  const isKept = kept === undefined ? 'true' : `(${kept.time} < '${keptFrom}') is not true`;
  const differing = sql<{ total: string }>`(
    select p, r, count(*) over () as total
      from (select * from ${sql.raw(live)} where ${sql.raw(isKept)}) p
      full join (select * from pg_temp.${sql.raw(table)} where ${sql.raw(isKept)}) r
        using (${sql.raw(key.join(', '))})
      where p is distinct from r order by ${sql.raw(key.join(', '))} limit ${sql.lit(DIFFERENCES_SHOWN)})`;
  const rows = await rowsOf(
    client,
    db
      .selectFrom(differing.as('differing'))
      .select(['total', asText('p').as('projected'), asText('r').as('replayed')]),
  );
  const counted = db.selectFrom(live as keyof Tables).select(({ fn }) => fn.countAll<string>().as('count'));
  found.rows += Number((await onlyRowOf(client, counted)).count);
  found.differing += Number(rows[0]?.total ?? 0);
  found.differences.push(
    ...rows.map((row) => describe(table, key, row)).slice(0, DIFFERENCES_SHOWN - found.differences.length),
  );
}

function describe(table: string, key: readonly string[], { projected, replayed }: DifferingRow): Difference {
  const either = (projected ?? replayed) as Values;
  const columns = Object.keys(either)
    .filter((column) => projected !== null && replayed !== null && projected[column] !== replayed[column])
    .map((column) => ({
      column,
      projected: projected?.[column] ?? null,
      replayed: replayed?.[column] ?? null,
    }));
  const kind = projected === null ? 'missing' : replayed === null ? 'surplus' : 'changed';
  return {
    table,
    key: Object.fromEntries(key.map((column) => [column, either[column] ?? null])),
    kind,
    columns,
  };
}
