import { setTimeout as wait } from 'node:timers/promises';
import { type ClientBase, DatabaseError } from 'pg';
import { StoreError } from '#db/postgres/connect.ts';
import { LOCKS } from '#db/postgres/locks.ts';
import { readHead } from '#db/log/read.ts';
import {
  analyzeCopy,
  type CopyOptions,
  createCopy,
  extendCopy,
  retainCopy,
  takePage,
} from '#db/projections/copy.ts';
import { park, PROJECTING } from '#db/projections/project.ts';
import { BUILD_SCHEMA, LIVE_SCHEMA, type Projection } from '#db/projections/projection.ts';
import type { Parked } from '#db/projections/apply-batch.ts';

/**
 * Making a projection anew from the log, while the old one is read and moved on. A copy is made
 * beside it up to where the live ones are; the last few events and the exchange are one short
 * transaction, in which the projector waits. Killed at any moment it leaves the old tables as they
 * were; what it had made is dropped by the next one.
 */

/** With this much left the exchange begins. Taking it in is a fraction of a second. */
const REST_EVENTS = 10_000;

/** Readers wait behind an exchange that waits for a reader. They would notice a longer one. */
const EXCHANGE_LOCK_TIMEOUT_MS = 1_000;
const EXCHANGES_MAX = 20;
const EXCHANGE_PAUSE_MS = 500;
const LOCK_NOT_AVAILABLE = '55P03';

/** Somebody else rebuilds at this moment. */
export class RebuildBusyError extends StoreError {
  override name = 'RebuildBusyError';
}

export type RebuildOptions = Pick<CopyOptions, 'signal' | 'onPage'>;
export type Rebuilt = { position: number; parked: number };

/**
 * Puts fresh tables in the place of a projection's own, also where those are gone.
 * @param client a connection as the worker, with nothing else on it and long time-outs.
 * @throws {RebuildBusyError} when another rebuild runs.
 * @throws {StoreError} when readers kept the tables busy. {GapError | ArchivedError} when the log is not
 * whole.
 */
export async function rebuild(
  client: ClientBase,
  projection: Projection,
  options: RebuildOptions = {},
): Promise<Rebuilt> {
  // One at a time: two copies of one name would be in one another's way.
  const { rows } = await client.query<{ is_ours: boolean }>(
    `select pg_try_advisory_lock(${LOCKS.rebuild}) as is_ours`,
  );
  if (rows[0]?.is_ours !== true)
    throw new RebuildBusyError('another rebuild is running: wait until it has ended');
  try {
    return await build(client, { projection, schema: BUILD_SCHEMA, ...options });
  } finally {
    // Where the connection is lost the lock went with it.
    await client.query(`select pg_advisory_unlock(${LOCKS.rebuild})`).catch(() => undefined);
  }
}

async function build(client: ClientBase, copy: CopyOptions): Promise<Rebuilt> {
  await createCopy(client, copy);
  const parked: Parked[] = [];
  let position = 0;
  for (let exchanges = 0; exchanges < EXCHANGES_MAX; exchanges++) {
    // What is projected in the meantime is taken in too, until little is left.
    for (
      let goal = await readGoal(client, copy.projection);
      goal - position > REST_EVENTS;
      goal = await readGoal(client, copy.projection)
    ) {
      parked.push(...(await extendCopy(client, copy, { after: position, upTo: goal })));
      position = goal;
    }
    if (exchanges === 0) await analyzeCopy(client, copy);
    const exchanged = await tryExchange(client, copy, position, parked);
    if (exchanged !== null) return exchanged;
    await wait(EXCHANGE_PAUSE_MS, undefined, { signal: copy.signal });
  }
  throw new StoreError(
    `the tables of ${copy.projection.name} were in use for too long: try again when fewer read them`,
  );
}

const GOAL = `select coalesce(max(position) filter (where name <> $1), max(position)) as position
  from daybook.projection where is_live`;

/**
 * Where the live projections are, for that is where the fresh one has to join them; the head where none
 * lives.
 */
async function readGoal(client: ClientBase, { name }: Projection): Promise<number> {
  const { rows } = await client.query<{ position: string | null }>(GOAL, [name]);
  const position = rows[0]?.position ?? null;
  return position === null ? await readHead(client) : Number(position);
}

const EXCHANGED = `update daybook.projection set position = $2, is_live = true, rebuilt_at = clock_timestamp(),
    position_at = (select at from daybook.log where shard = 0 and position = $2)
  where name = $1`;

/**
 * The rest and the exchange. @returns null when a reader held on to the old tables; nothing has changed then.
 */
async function tryExchange(
  client: ClientBase,
  copy: CopyOptions,
  after: number,
  before: readonly Parked[],
): Promise<Rebuilt | null> {
  const { projection, schema } = copy;
  await client.query(`begin; ${PROJECTING}; set local search_path = ${schema}, daybook`);
  try {
    // The projector's page is waited for. The next one finds the turn taken, and does not queue up.
    await client.query(`select pg_advisory_xact_lock(${LOCKS.projecting})`);
    const { rows } = await client.query<{ kept_from: string }>(
      'select kept_from::text from daybook.projection where name = $1 for update',
      [projection.name],
    );
    const upTo = Math.max(after, await readGoal(client, projection));
    const parked = [...before, ...(await takePage(client, projection, { after, upTo }))];
    await retainCopy(client, copy, rows[0]?.kept_from ?? '-infinity');
    await client.query(
      `set local lock_timeout = ${EXCHANGE_LOCK_TIMEOUT_MS}; set local client_min_messages = warning`,
    );
    for (const table of projection.tables) {
      await client.query(
        `drop table if exists ${LIVE_SCHEMA}.${table}; alter table ${schema}.${table} set schema ${LIVE_SCHEMA}`,
      );
    }
    await client.query('delete from daybook.parked_event where projection = $1', [projection.name]);
    await park(
      client,
      parked.map((each) => ({ projection: projection.name, ...each })),
    );
    await client.query(EXCHANGED, [projection.name, upTo]);
    await client.query("select pg_notify('daybook_projected', $1::bigint::text)", [upTo]);
    await client.query('commit');
    return { position: upTo, parked: parked.length };
  } catch (error) {
    await client.query('rollback');
    if (error instanceof DatabaseError && error.code === LOCK_NOT_AVAILABLE) return null;
    throw error;
  }
}
