import { type Selectable, sql } from 'kysely';
import type { ClientBase } from 'pg';
import { isLockTaken, takeLockNow } from '#db/postgres/locks.ts';
import { EVENT_CODES } from '#db/events/events.ts';
import { SHARD } from '#db/log/append.ts';
import type { LogRange } from '#db/log/read.ts';
import { type EventPage, type Parked, readEventPage } from '#db/projections/page/page.ts';
import { db, onlyRowOf, type Result, rowsOf } from '#db/schema/query.ts';
import type { ProjectionTable } from '#db/schema/tables.ts';
import { LIVE_SCHEMA, type Projection, type ProjectionName } from '#db/projections/projection.ts';
import { classify, BrokenProjectionError, isLogFault, applyBatch } from '#db/projections/apply-batch.ts';

/**
 * Applies the log to the live projections, page by page. A page is one transaction: it takes the
 * lock, reads the projections' common position, applies the events above to each of them, and
 * advances the position. A crash rolls all of that back, so each page is applied exactly once.
 *
 * A projection that is not at the common position (added by a later version, or its tables are
 * missing) is detached until it is rebuilt, so that it doesn't delay the others.
 */

/**
 * The size of a page of a backlog, about 50 MB of memory. At 60,000 events per second it holds its locks for
 * less than a second.
 */
const PAGE_EVENTS_MAX = 50_000;

/**
 * The settings of a projecting transaction. A commit that a crash loses is applied again.
 *
 * Each statement is planned once for a connection: planning takes a few milliseconds, ten times as long as
 * running it on a live page. No plan may depend on the planner's row estimates: it has no statistics of a
 * copy that has just grown, so a nested loop over many rows would be planned as one over few, and take
 * minutes. A statement that must use a key says so by `on conflict`, or by an array of keys. Sorts and hashes
 * of a large page fit into `work_mem`. JIT compilation costs more than it saves.
 */
export const PROJECTING = [
  'set local synchronous_commit = off',
  'set local plan_cache_mode = force_generic_plan',
  'set local enable_nestloop = off',
  "set local work_mem = '32MB'",
  'set local jit = off',
].join('; ');

/** An event that a projection could not apply. */
export type ParkedEvent = Parked & { projection: ProjectionName };

export type Page =
  /** Another projector or a rebuild holds the lock. */
  | { kind: 'busy' }
  /** A newer projector has begun an epoch: this one must end. */
  | { kind: 'superseded' }
  | {
      kind: 'projected';
      range: LogRange;
      /** The newest event of the log when the page began. */
      head: number;
      parked: ParkedEvent[];
      /** The projections that this page detached because of a fault of their own. */
      broken: { projection: ProjectionName; reason: string }[];
      /** The projections that wait for a rebuild. */
      detached: ProjectionName[];
    };

/** Starts an epoch of projecting: the projector of an earlier one ends at its next page. */
export async function startEpoch(client: ClientBase): Promise<number> {
  const query = db.selectNoFrom(sql<string>`nextval('daybook.projector_epoch')`.as('epoch'));
  return Number((await onlyRowOf(client, query)).epoch);
}

const DETACH_WITHOUT_TABLES = `update daybook.projection p set is_live = false
  where p.is_live and exists (
    select from unnest($1::text[], $2::text[]) as t(projection, name)
      where t.projection = p.name and to_regclass(t.name) is null)`;

/**
 * Detaches the projections whose tables are missing. A page would notice only with an event for
 * them, and readers would get errors until then.
 */
export async function detachWithoutTables(
  client: ClientBase,
  projections: readonly Projection[],
): Promise<void> {
  const tables = projections.flatMap(({ name, tables: own }) =>
    own.map((table) => [name, `${LIVE_SCHEMA}.${table}`] as const),
  );
  await client.query(DETACH_WITHOUT_TABLES, [tables.map(([name]) => name), tables.map(([, table]) => table)]);
}

export type PageOptions = {
  projections: readonly Projection[];
  /** From {@link startEpoch}. */
  epoch: number;
  pageEvents?: number;
};

/**
 * Applies at most one page to the live projections.
 * @throws {GapError | ArchivedError} when the log lacks an event; nothing was applied then. Errors of the
 * database are thrown as they are.
 */
export async function projectPage(client: ClientBase, options: PageOptions): Promise<Page> {
  try {
    return await page(client, options, applyAll);
  } catch (error) {
    // On a lost connection this fails too. The next page reads whether the transaction was committed.
    await client.query('rollback');
    if (isLogFault(error) || classify(error) === 'database') throw error;
  }
  // Again with a savepoint for each part, which costs round trips that most pages don't need.
  try {
    return await page(client, options, applyIsolated);
  } catch (error) {
    await client.query('rollback');
    throw error;
  }
}

/** Its row, the head of the log and the epoch of projecting. */
type Row = Pick<Selectable<ProjectionTable>, 'position' | 'is_live'> & {
  name: ProjectionName;
  head: Result<'daybook.head'>;
  epoch: string;
};
type Applied = { parked: ParkedEvent[]; broken: { projection: ProjectionName; reason: string }[] };
type Apply = (client: ClientBase, projections: readonly Projection[], events: EventPage) => Promise<Applied>;

// The head is of the statement's own snapshot, so all events up to it are visible; it may be older than the
// position that the row lock found.
const BEGIN = `select p.name, p.position, p.is_live, daybook.head($1) as head,
      (select last_value from daybook.projector_epoch) as epoch
    from daybook.projection p where p.name = any($2) order by p.name for update of p`;

const MOVE = `with moved as (
    update daybook.projection set position = $1, position_at = $2 where name = any($3) returning 1)
  select pg_notify('daybook_projected', $1::bigint::text) from moved limit 1`;
const DETACH = 'update daybook.projection set is_live = false where name = any($1)';
const PARK = `insert into daybook.parked_event (projection, position, reason, type)
  select * from unnest($1::text[], $2::bigint[], $3::text[], $4::smallint[]) on conflict do nothing`;

async function page(
  client: ClientBase,
  { projections, epoch, pageEvents = PAGE_EVENTS_MAX }: PageOptions,
  apply: Apply,
): Promise<Page> {
  // One projector at a time; a rebuild takes the same lock to swap its copy in. The session's own temporary
  // tables come last, or they would stand before the live ones.
  try {
    await client.query(
      `begin; ${PROJECTING}; ${takeLockNow('projecting')};
        set local search_path = ${LIVE_SCHEMA}, daybook, pg_temp`,
    );
  } catch (error) {
    if (!isLockTaken(error)) throw error;
    await client.query('rollback');
    return { kind: 'busy' };
  }
  const { rows } = await client.query<Row>({
    name: 'projector_begin',
    text: BEGIN,
    values: [SHARD, projections.map(({ name }) => name)],
  });
  const plan = planPage(rows, epoch, pageEvents);
  if (plan.kind !== 'projected') {
    await client.query('rollback');
    return plan;
  }
  const { range, head, detached, behind } = plan;
  let applied: Applied = { parked: [], broken: [] };
  if (range.upTo > range.after) {
    const events = await readEventPage(client, range);
    applied = await apply(
      client,
      projections.filter(({ name }) => !detached.includes(name)),
      events,
    );
    const moving = projections
      .map(({ name }) => name)
      .filter((name) => !detached.includes(name))
      .filter((name) => !applied.broken.some(({ projection }) => projection === name));
    applied.parked = withUnknown(applied.parked, events.unknown, moving);
    await park(client, applied.parked);
    await client.query({ name: 'projector_move', text: MOVE, values: [range.upTo, events.at, moving] });
  }
  const broken = applied.broken.map(({ projection }) => projection);
  if (behind.length + broken.length > 0) await client.query(DETACH, [[...behind, ...broken]]);
  await client.query('commit');
  return { kind: 'projected', range, head, ...applied, detached: [...detached, ...broken] };
}

type Plan =
  | { kind: 'busy' }
  | { kind: 'superseded' }
  /** `behind`: the live projections among `detached`, which are below the common position. */
  | {
      kind: 'projected';
      range: LogRange;
      head: number;
      detached: ProjectionName[];
      behind: ProjectionName[];
    };

/** The range and the projections of a page. Pure. */
export function planPage(rows: readonly Row[], epoch: number, pageEvents: number): Plan {
  const [first] = rows;
  if (first === undefined) return { kind: 'busy' };
  if (Number(first.epoch) !== epoch) return { kind: 'superseded' };
  const live = rows.filter((row) => row.is_live);
  const after = Math.max(0, ...live.map(({ position }) => Number(position)));
  // A projection behind the furthest one can't join its pages any more.
  const behind = live.filter(({ position }) => Number(position) < after).map(({ name }) => name);
  const detached = [...rows.filter((row) => !row.is_live).map(({ name }) => name), ...behind];
  const head = Number(first.head);
  const upTo = live.length === 0 ? after : Math.max(after, Math.min(head, after + pageEvents));
  return { kind: 'projected', range: { after, upTo }, head, detached, behind };
}

/** Applies the whole page to each projection, as for nearly every page. */
async function applyAll(
  client: ClientBase,
  projections: readonly Projection[],
  events: EventPage,
): Promise<Applied> {
  for (const projection of projections) await projection.apply(client, events);
  return { parked: [], broken: [] };
}

/** Applies the page to each projection separately, and parks the events that it can't apply. */
async function applyIsolated(
  client: ClientBase,
  projections: readonly Projection[],
  events: EventPage,
): Promise<Applied> {
  const applied: Applied = { parked: [], broken: [] };
  for (const projection of projections) {
    await client.query('savepoint projection');
    try {
      const parked = await applyBatch(client, projection, events);
      applied.parked.push(...parked.map((each) => ({ projection: projection.name, ...each })));
    } catch (error) {
      if (!(error instanceof BrokenProjectionError)) throw error;
      await client.query('rollback to savepoint projection');
      applied.broken.push({ projection: projection.name, reason: error.message });
    }
    await client.query('release savepoint projection');
  }
  return applied;
}

/** Parks the events of unknown types for each projection, unless it has parked them itself. */
export function withUnknown(
  parked: readonly ParkedEvent[],
  unknown: readonly Parked[],
  names: readonly ProjectionName[],
): ParkedEvent[] {
  const known = new Set(unknown.map(({ position }) => position));
  return [
    ...parked.filter(({ position }) => !known.has(position)),
    ...names.flatMap((projection) => unknown.map((each) => ({ projection, ...each }))),
  ];
}

/** Stores parked events. */
export async function park(client: ClientBase, parked: readonly ParkedEvent[]): Promise<void> {
  if (parked.length === 0) return;
  await client.query(PARK, [
    parked.map(({ projection }) => projection),
    parked.map(({ position }) => position),
    parked.map(({ reason }) => reason),
    parked.map(({ type }) => type ?? null),
  ]);
}

/**
 * The projections for which an older version has parked events of types that this version knows. A rebuild
 * applies them in their places: applied now, they would follow events that came after them.
 */
export async function findReadable(client: ClientBase): Promise<ProjectionName[]> {
  const query = db
    .selectFrom('daybook.parked_event')
    .select('projection')
    .distinct()
    .where('type', '=', sql<number>`any(${Object.values(EVENT_CODES)})`);
  return (await rowsOf(client, query)).map(({ projection }) => projection as ProjectionName);
}
