import type { ClientBase } from 'pg';
import { LOCKS } from '#db/postgres/locks.ts';
import { SHARD } from '#db/log/append.ts';
import { PLANNING } from '#db/projections/page.ts';
import { LIVE_SCHEMA, type Projection, type ProjectionName, type Range } from '#db/projections/projection.ts';
import {
  blame,
  BrokenProjectionError,
  isLogFault,
  type Parked,
  survey,
  applyBatch,
} from '#db/projections/apply-batch.ts';

/**
 * Moving the live projections along the log, page by page. A page is one transaction: it takes the
 * turn, reads how far the projections are, takes the events above into all of them, and moves their
 * common position. Whoever dies within it leaves nothing behind, and nobody takes a page twice.
 *
 * One that is not where the others are (added by a later version, or its tables are gone) stands
 * aside until it is rebuilt, so that it holds up nobody.
 */

/** A page of a backlog: at 38,000 events a second it holds its locks for little more than a second. */
const PAGE_EVENTS_MAX = 50_000;

/** The settings of a transaction that projects. What a crash takes back is projected again. */
export const PROJECTING = `set local synchronous_commit = off; ${PLANNING}`;

/** An event put aside, and by which projection. */
export type ParkedEvent = Parked & { projection: ProjectionName };

export type Page =
  /** Somebody else is at it. */
  | { kind: 'taken' }
  /** Somebody newer has the seat: this projector is to end. */
  | { kind: 'unseated' }
  | {
      kind: 'projected';
      range: Range;
      /** The newest event of the log when the page began. */
      head: number;
      parked: ParkedEvent[];
      /** Those that broke within this page, and why. */
      broken: { projection: ProjectionName; reason: string }[];
      /** Those that stand aside and wait for a rebuild. */
      aside: ProjectionName[];
    };

/** Takes the seat of the projector: whoever had it before ends at its next page. */
export async function takeSeat(client: ClientBase): Promise<number> {
  const { rows } = await client.query<{ seat: string }>("select nextval('daybook.projector_epoch') as seat");
  return Number(rows[0]?.seat);
}

const LOST = `update daybook.projection p set is_live = false
  where p.is_live and exists (
    select from unnest($1::text[], $2::text[]) as t(projection, name) where t.projection = p.name and to_regclass(t.name) is null)`;

/**
 * Lets those stand aside whose tables are gone. A page would find out only with an event for them,
 * and readers would wait for that.
 */
export async function standAsideWithoutTables(
  client: ClientBase,
  projections: readonly Projection[],
): Promise<void> {
  const tables = projections.flatMap(({ name, tables: own }) =>
    own.map((table) => [name, `${LIVE_SCHEMA}.${table}`] as const),
  );
  await client.query(LOST, [tables.map(([name]) => name), tables.map(([, table]) => table)]);
}

export type PageOptions = {
  projections: readonly Projection[];
  /** Of {@link takeSeat}. */
  seat: number;
  pageEvents?: number;
};

/**
 * Moves the live projections on by at most a page.
 * @throws {GapError | ArchivedError} when the log lacks an event; nothing is moved then. Faults of the store
 * pass as they are.
 */
export async function projectPage(client: ClientBase, options: PageOptions): Promise<Page> {
  try {
    return await page(client, options, takeAll);
  } catch (error) {
    // Over a connection that is lost this fails too; what came of the transaction the next page shows.
    await client.query('rollback');
    if (isLogFault(error) || blame(error) === 'store') throw error;
  }
  // Once more with a savepoint for each part: more exchanges, which most pages never need.
  try {
    return await page(client, options, takeCarefully);
  } catch (error) {
    await client.query('rollback');
    throw error;
  }
}

type Row = { name: ProjectionName; position: string; is_live: boolean; head: string; seat: string };
type Taken = { parked: ParkedEvent[]; broken: { projection: ProjectionName; reason: string }[] };
type Take = (client: ClientBase, projections: readonly Projection[], range: Range) => Promise<Taken>;

// One moves the projections at a time; a rebuild takes the same turn to put its copy in place. The
// turn is asked for first and not waited for. The head is of the statement's own snapshot, so
// that all events up to it are visible; it may be older than the position that the lock found.
const BEGIN = `with turn as materialized (select pg_try_advisory_xact_lock(${LOCKS.projecting}) as is_ours)
  select p.name, p.position, p.is_live, daybook.head($1) as head, (select last_value from daybook.projector_epoch) as seat
  from daybook.projection p, turn where turn.is_ours and p.name = any($2) order by p.name for update of p`;

const MOVE = `with moved as (
    update daybook.projection set position = $1, position_at = $2 where name = any($3) returning 1)
  select pg_notify('daybook_projected', $1::bigint::text) from moved limit 1`;
const STAND_ASIDE = 'update daybook.projection set is_live = false where name = any($1)';
const PARK = `insert into daybook.parked_event (projection, position, reason)
  select * from unnest($1::text[], $2::bigint[], $3::text[]) on conflict do nothing`;

async function page(
  client: ClientBase,
  { projections, seat, pageEvents = PAGE_EVENTS_MAX }: PageOptions,
  take: Take,
): Promise<Page> {
  // The session's own temporary tables come last, or they would stand before the live ones.
  await client.query(`begin; ${PROJECTING}; set local search_path = ${LIVE_SCHEMA}, daybook, pg_temp`);
  const { rows } = await client.query<Row>({
    name: 'projector_begin',
    text: BEGIN,
    values: [SHARD, projections.map(({ name }) => name)],
  });
  const plan = planPage(rows, seat, pageEvents);
  if (plan.kind !== 'projected') {
    await client.query('rollback');
    return plan;
  }
  const { range, head, aside, fallen } = plan;
  let taken: Taken = { parked: [], broken: [] };
  if (range.upTo > range.after) {
    const { at, unknown } = await survey(client, range);
    taken = await take(
      client,
      projections.filter(({ name }) => !aside.includes(name)),
      range,
    );
    const moving = projections
      .map(({ name }) => name)
      .filter((name) => !aside.includes(name) && !taken.broken.some(({ projection }) => projection === name));
    taken.parked = withUnknown(taken.parked, unknown, moving);
    await park(client, taken.parked);
    await client.query({ name: 'projector_move', text: MOVE, values: [range.upTo, at, moving] });
  }
  const broken = taken.broken.map(({ projection }) => projection);
  if (fallen.length + broken.length > 0) await client.query(STAND_ASIDE, [[...fallen, ...broken]]);
  await client.query('commit');
  return { kind: 'projected', range, head, ...taken, aside: [...aside, ...broken] };
}

type Plan =
  | { kind: 'taken' }
  | { kind: 'unseated' }
  /** `fallen`: those of `aside` that are found to be behind only now. */
  | { kind: 'projected'; range: Range; head: number; aside: ProjectionName[]; fallen: ProjectionName[] };

/** What a page is to take in, from where the projections and the log are. Pure. */
export function planPage(rows: readonly Row[], seat: number, pageEvents: number): Plan {
  const [first] = rows;
  if (first === undefined) return { kind: 'taken' };
  if (Number(first.seat) !== seat) return { kind: 'unseated' };
  const live = rows.filter((row) => row.is_live);
  const after = Math.max(0, ...live.map(({ position }) => Number(position)));
  // Those behind the furthest can't join its pages any more.
  const fallen = live.filter(({ position }) => Number(position) < after).map(({ name }) => name);
  const aside = [...rows.filter((row) => !row.is_live).map(({ name }) => name), ...fallen];
  const head = Number(first.head);
  const upTo = live.length === 0 ? after : Math.max(after, Math.min(head, after + pageEvents));
  return { kind: 'projected', range: { after, upTo }, head, aside, fallen };
}

/** All at once, as nearly every page goes. */
async function takeAll(client: ClientBase, projections: readonly Projection[], range: Range): Promise<Taken> {
  for (const projection of projections) await projection.apply(client, range);
  return { parked: [], broken: [] };
}

/** Each by itself, and around what it can't take. */
async function takeCarefully(
  client: ClientBase,
  projections: readonly Projection[],
  range: Range,
): Promise<Taken> {
  const taken: Taken = { parked: [], broken: [] };
  for (const projection of projections) {
    await client.query('savepoint whole');
    try {
      const parked = await applyBatch(client, projection, range);
      taken.parked.push(...parked.map((each) => ({ projection: projection.name, ...each })));
    } catch (error) {
      if (!(error instanceof BrokenProjectionError)) throw error;
      await client.query('rollback to savepoint whole');
      taken.broken.push({ projection: projection.name, reason: error.message });
    }
    await client.query('release savepoint whole');
  }
  return taken;
}

/** Events of no known type are put aside for each that goes on, unless it has done so itself. */
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

/** Writes down what was put aside. */
export async function park(client: ClientBase, parked: readonly ParkedEvent[]): Promise<void> {
  if (parked.length === 0) return;
  await client.query(PARK, [
    parked.map(({ projection }) => projection),
    parked.map(({ position }) => position),
    parked.map(({ reason }) => reason),
  ]);
}
