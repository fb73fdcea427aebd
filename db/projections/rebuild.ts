import { setTimeout as wait } from 'node:timers/promises';
import { type ClientBase, DatabaseError } from 'pg';
import { StoreError } from '#db/postgres/connect.ts';
import { takeLock, tryHoldLock } from '#db/postgres/locks.ts';
import { readHead } from '#db/log/read.ts';
import {
  analyzeCopy,
  type CopyOptions,
  createCopy,
  extendCopy,
  retainCopy,
  applyPage,
} from '#db/projections/copy.ts';
import { park, PROJECTING } from '#db/projections/project.ts';
import { BUILD_SCHEMA, LIVE_SCHEMA, type Projection } from '#db/projections/projection.ts';
import type { Parked } from '#db/projections/page/page.ts';
import { partitionsOf } from '#db/schema/catalog.ts';
import { db, onlyRowOf, rowOf, rowsOf } from '#db/schema/query.ts';

/**
 * Rebuilds a projection from the log, while the live one is read and kept up to date. A copy is
 * built up to the position of the live projections; the last events and the swap of the tables are
 * one short transaction, in which the projector waits. A rebuild killed at any moment leaves the
 * live tables unchanged; the next rebuild drops its copy.
 */

/** The swap begins with at most this many events left, which are applied in a fraction of a second. */
const CATCH_UP_EVENTS = 10_000;

/** Readers queue behind a swap that waits for a reader. They would notice a longer wait. */
const SWAP_LOCK_TIMEOUT_MS = 1_000;
const SWAPS_MAX = 20;
const SWAP_PAUSE_MS = 500;
const LOCK_NOT_AVAILABLE = '55P03';

/** Another rebuild is running. */
export class RebuildBusyError extends StoreError {
  override name = 'RebuildBusyError';
}

export type RebuildOptions = Pick<CopyOptions, 'signal' | 'onPage'>;
export type Rebuilt = { position: number; parked: number };

/**
 * Replaces a projection's tables by rebuilt ones, also where they are missing.
 * @param client a connection as the worker, used for nothing else, with long timeouts.
 * @throws {RebuildBusyError} when another rebuild runs.
 * @throws {StoreError} when readers kept the tables busy. {GapError | ArchivedError} when the log is not
 * whole.
 */
export async function rebuild(
  client: ClientBase,
  projection: Projection,
  options: RebuildOptions = {},
): Promise<Rebuilt> {
  // One at a time: both would use the same schema.
  const lock = await tryHoldLock(client, 'rebuild');
  if (lock === null) throw new RebuildBusyError('another rebuild is running: wait until it has ended');
  try {
    return await build(client, { projection, schema: BUILD_SCHEMA, ...options });
  } finally {
    await lock.release();
  }
}

async function build(client: ClientBase, copy: CopyOptions): Promise<Rebuilt> {
  await createCopy(client, copy);
  await copy.projection.prepareCopy?.(client, copy.schema);
  const parked: Parked[] = [];
  let position = 0;
  for (let swaps = 0; swaps < SWAPS_MAX; swaps++) {
    // Events projected in the meantime are applied as well, until few are left.
    for (
      let goal = await readGoal(client, copy.projection);
      goal - position > CATCH_UP_EVENTS;
      goal = await readGoal(client, copy.projection)
    ) {
      parked.push(...(await extendCopy(client, copy, { after: position, upTo: goal })));
      position = goal;
    }
    if (swaps === 0) await analyzeCopy(client, copy);
    const swapped = await trySwap(client, copy, position, parked);
    if (swapped !== null) return swapped;
    await wait(SWAP_PAUSE_MS, undefined, { signal: copy.signal });
  }
  throw new StoreError(
    `the tables of ${copy.projection.name} were in use for too long: retry when fewer readers use them`,
  );
}

/** The position of the live projections, which the rebuilt one has to join; the head where none is live. */
async function readGoal(client: ClientBase, { name }: Projection): Promise<number> {
  const query = db
    .selectFrom('daybook.projection')
    .select(({ fn }) =>
      fn.coalesce(fn.max('position').filterWhere('name', '<>', name), fn.max('position')).as('position'),
    )
    .where('is_live', '=', true);
  const position: string | null = (await onlyRowOf(client, query)).position;
  return position === null ? await readHead(client) : Number(position);
}

const SWAPPED = `update daybook.projection set position = $2, is_live = true, rebuilt_at = clock_timestamp(),
    position_at = (select at from daybook.log_batch where shard = 0 and last_position >= $2
      order by last_position limit 1)
  where name = $1`;

/**
 * Applies the last events and swaps the tables. @returns null, without a change, when a reader kept them
 * locked.
 */
async function trySwap(
  client: ClientBase,
  copy: CopyOptions,
  after: number,
  before: readonly Parked[],
): Promise<Rebuilt | null> {
  const { projection, schema } = copy;
  await client.query(`begin; ${PROJECTING}; set local search_path = ${schema}, daybook`);
  try {
    // Waits for the projector's current page. Its next page finds the lock taken and does not queue.
    await client.query(takeLock('projecting'));
    const state = db
      .selectFrom('daybook.projection')
      .select(({ cast }) => cast<string>('kept_from', 'text').as('kept_from'))
      .where('name', '=', projection.name)
      .forUpdate();
    const keptFrom = (await rowOf(client, state))?.kept_from ?? '-infinity';
    const upTo = Math.max(after, await readGoal(client, projection));
    const parked = [...before, ...(await applyPage(client, projection, { after, upTo }))];
    await retainCopy(client, copy, keptFrom);
    await client.query(
      `set local lock_timeout = ${SWAP_LOCK_TIMEOUT_MS}; set local client_min_messages = warning`,
    );
    for (const table of projection.tables) {
      // A partitioned table moves without its partitions.
      const partitions = await rowsOf(client, partitionsOf(`${schema}.${table}`));
      const moves = [{ path: `${schema}.${table}` }, ...partitions].map(
        ({ path }) => `alter table ${path} set schema ${LIVE_SCHEMA}`,
      );
      await client.query([`drop table if exists ${LIVE_SCHEMA}.${table}`, ...moves].join('; '));
    }
    await client.query('delete from daybook.parked_event where projection = $1', [projection.name]);
    await park(
      client,
      parked.map((each) => ({ projection: projection.name, ...each })),
    );
    await client.query(SWAPPED, [projection.name, upTo]);
    await client.query("select pg_notify('daybook_projected', $1::bigint::text)", [upTo]);
    await client.query('commit');
    return { position: upTo, parked: parked.length };
  } catch (error) {
    await client.query('rollback');
    if (error instanceof DatabaseError && error.code === LOCK_NOT_AVAILABLE) return null;
    throw error;
  }
}
