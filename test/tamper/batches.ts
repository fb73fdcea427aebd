import type { Client } from 'pg';
import { CORRECTION_FIELDS } from '#db/audit/verify/corrections.ts';
import { EVENT_CODES } from '#db/events/events.ts';
import { entriesOf, leafHash, linkBatch } from '#db/log/chain.ts';
import { subtreeHash, HASH_BYTES } from '#db/tlog/merkle.ts';
import { readLeafTile } from '#db/tlog/publish-directory.ts';
import { readBatches } from '../support/audit/verify-chain.ts';
import { RESERVED_NAME } from './reserved-names.ts';
import type { World } from './world.ts';

/** A batch by its positions. */
export type Span = { from: number; to: number };

/** The batches of the log that have their events in the database, in order. */
export async function wholeBatches({ superuser, first }: World): Promise<Span[]> {
  const { rows } = await superuser.query<Span>(
    `select (last_position - event_count + 1)::float8 as from, last_position::float8 as to
      from daybook.log_batch where last_position - event_count + 1 >= $1 order by last_position`,
    [first],
  );
  return rows;
}

/** The batch of a position. */
export async function batchOf({ superuser }: World, position: number): Promise<Span> {
  const { rows } = await superuser.query<Span>(
    `select (last_position - event_count + 1)::float8 as from, last_position::float8 as to
      from daybook.log_batch where last_position >= $1 order by last_position limit 1`,
    [position],
  );
  return rows[0] as Span;
}

/** The lines of a batch that is in the database. */
export async function linesOf({ superuser }: World, { to }: Span): Promise<string[]> {
  const { rows } = await superuser.query<{ events: string }>(
    'select events from daybook.log where last_position = $1',
    [to],
  );
  return (rows[0] as { events: string }).events.split('\n');
}

/** Rewrites the events of a batch. */
export async function putLines({ superuser }: World, { to }: Span, lines: readonly string[]): Promise<void> {
  await superuser.query('update daybook.log set events = $1 where last_position = $2', [
    lines.join('\n'),
    to,
  ]);
}

const NODE = 256;

/**
 * Makes everything that hangs on the events fit again from a position on, as an attacker with all privileges
 * and this program's source would: the chain, the tree, the copies of control events and corrections, and
 * stream heads.
 */
export async function makeFit(world: World, from: number): Promise<void> {
  const { superuser } = world;
  const batches = await readBatches(superuser);
  const begin = batches.findIndex(({ row }) => Number(row.lastPosition) >= from);
  const { rows } = await superuser.query<{ chain: Buffer }>(
    'select chain from daybook.log_batch where last_position < $1 order by last_position desc limit 1',
    [from],
  );
  let chain = rows[0]?.chain as Buffer;
  const leaves = new Map<number, Buffer>();
  const linked: [position: string, chain: Buffer][] = [];
  for (const [index, batch] of batches.entries()) {
    const entries = entriesOf(batch);
    const before = Number(batch.row.lastPosition) - entries.length;
    for (const [at, entry] of entries.entries()) leaves.set(before + at + 1, leafHash(entry));
    if (begin < 0 || index < begin) continue;
    chain = linkBatch(chain, batch);
    linked.push([batch.row.lastPosition, chain]);
  }
  await superuser.query(
    `update daybook.log_batch b set chain = n.chain
      from unnest($1::bigint[], $2::bytea[]) n(position, chain) where b.last_position = n.position`,
    [linked.map(([position]) => position), linked.map(([, value]) => value)],
  );
  await makeTreeFit(world, from, leaves);
  await superuser.query('delete from daybook.control_event where position >= $1', [
    Math.max(world.first, from),
  ]);
  await superuser.query(
    `insert into daybook.control_event
        (shard, position, at, instance, type, stream, version, account, key, line)
      select 0, l.position, l.at, l.instance, f.type, f.stream, f.version, f.account, f.key, l.line
      from daybook.lines($1) l cross join unnest(array[l.line::daybook.event_fields]) f
      where f.stream is not null order by l.position on conflict do nothing`,
    [Math.max(world.first, from) - 1],
  );
  await makeCorrectionsFit(superuser, Math.max(world.first, from));
  await makeHeadsFit(superuser);
}

const FIELDS = CORRECTION_FIELDS.join(', ');

async function makeCorrectionsFit(superuser: Client, from: number): Promise<void> {
  await superuser.query('delete from daybook.correction where position >= $1', [from]);
  await superuser.query(
    `insert into daybook.correction (position, at, ${FIELDS}, reference, reason, adjusted_by)
      select position, at, ${FIELDS}, body::jsonb ->> 'reference', body::jsonb ->> 'reason',
          body::jsonb ->> 'adjusted_by'
        from daybook.events($1) where type = ${EVENT_CODES['usage.adjusted']} order by position
        on conflict do nothing`,
    [from - 1],
  );
}

async function makeTreeFit(
  { superuser, directory, first }: World,
  from: number,
  leaves: ReadonlyMap<number, Buffer>,
): Promise<void> {
  const head = Math.max(first - 1, ...leaves.keys());
  for (let number = Math.floor((from - 1) / NODE); (number + 1) * NODE <= head; number++) {
    // What left the database is as it was published.
    const tile = await readLeafTile(directory, number);
    const below = Array.from(
      { length: NODE },
      (_, at) =>
        leaves.get(number * NODE + at + 1) ??
        (tile?.subarray(at * HASH_BYTES, (at + 1) * HASH_BYTES) as Buffer),
    );
    await superuser.query('update daybook.log_node set hash = $2 where level = 1 and number = $1', [
      number,
      subtreeHash(below),
    ]);
  }
  await superuser.query('delete from daybook.log_node where (number + 1) * 256 > $1', [head]);
}

async function makeHeadsFit(superuser: Client): Promise<void> {
  await superuser.query(`with truth as (select stream, max(version) as version from daybook.control_event
    group by stream)
    update daybook.stream_head h set version = t.version from truth t where t.stream = h.stream
      and h.version <> t.version`);
  await superuser.query(`delete from daybook.stream_head h where not exists (select
    from daybook.control_event e where e.stream = h.stream
      or h.version = 0 and h.stream = ${RESERVED_NAME})`);
}
