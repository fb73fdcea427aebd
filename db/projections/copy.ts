import type { ClientBase } from 'pg';
import type { LogRange } from '#db/log/read.ts';
import { PROJECTING } from '#db/projections/project.ts';
import { type Parked, readEventPage } from '#db/projections/page/page.ts';
import type { Projection } from '#db/projections/projection.ts';
import { applyBatch } from '#db/projections/apply-batch.ts';

/**
 * A copy of a projection's tables, built from the log alone: to replace the live ones, or for a comparison.
 */

/** The size of a page, which is a transaction. A copy shares the disk with the projector, but no locks. */
const COPY_EVENTS = 50_000;

export type CopyOptions = {
  projection: Projection;
  /** The schema of the copy. */
  schema: string;
  signal?: AbortSignal | undefined;
  /** Called after each page with its last position. */
  onPage?: ((position: number) => void) | undefined;
};

/** Creates the tables, empty, in place of those that an earlier attempt has left. */
export async function createCopy(client: ClientBase, { projection, schema }: CopyOptions): Promise<void> {
  const drop = projection.tables.map((table) => `drop table if exists ${schema}.${table};`).join(' ');
  await inTransaction(client, schema, async () => {
    await client.query(`set local client_min_messages = warning; ${drop}`);
    await client.query('select daybook.create_projection($1)', [projection.name]);
  });
}

/**
 * Applies a range of the log to the copy, in a transaction for each page.
 * @returns the events that could not be applied.
 * @throws {GapError | ArchivedError} when the log lacks an event of the range.
 */
export async function extendCopy(
  client: ClientBase,
  options: CopyOptions,
  { after, upTo }: LogRange,
): Promise<Parked[]> {
  const parked: Parked[] = [];
  for (let reached = after; reached < upTo;) {
    options.signal?.throwIfAborted();
    const page = { after: reached, upTo: Math.min(upTo, reached + COPY_EVENTS) };
    parked.push(
      ...(await inTransaction(client, options.schema, () => applyPage(client, options.projection, page))),
    );
    reached = page.upTo;
    options.onPage?.(reached);
  }
  return parked;
}

/** Applies a range to the copy within the caller's transaction, whose search path selects the copy. */
export async function applyPage(
  client: ClientBase,
  projection: Projection,
  range: LogRange,
): Promise<Parked[]> {
  if (range.upTo === range.after) return [];
  const page = await readEventPage(client, range);
  const { unknown } = page;
  const parked = await applyBatch(client, projection, page);
  const known = new Set(unknown.map(({ position }) => position));
  return [...unknown, ...parked.filter(({ position }) => !known.has(position))];
}

/** Updates the planner's statistics: autovacuum does not analyze temporary tables. */
export async function analyzeCopy(client: ClientBase, { projection, schema }: CopyOptions): Promise<void> {
  await client.query(`analyze ${projection.tables.map((table) => `${schema}.${table}`).join(', ')}`);
}

/** Deletes the rows that retention has deleted from the live tables. */
export async function retainCopy(
  client: ClientBase,
  { projection, schema }: CopyOptions,
  keptFrom: string,
): Promise<void> {
  for (const { table, time } of projection.kept ?? [])
    await client.query(`delete from ${schema}.${table} where ${time} < $1`, [keptFrom]);
}

async function inTransaction<T>(client: ClientBase, schema: string, work: () => Promise<T>): Promise<T> {
  await client.query(`begin; ${PROJECTING}; set local search_path = ${schema}, daybook`);
  try {
    const result = await work();
    await client.query('commit');
    return result;
  } catch (error) {
    await client.query('rollback');
    throw error;
  }
}
