import type { Client } from 'pg';
import { type BatchRow, leafOf, type LeafRow, linkBatch } from '#db/log/chain.ts';
import { subtreeHash, HASH_BYTES } from '#db/tlog/merkle.ts';
import { readLeafTile } from '#db/tlog/publish-directory.ts';
import { readBatches, readRows } from '../support/audit/verify-chain.ts';
import type { World } from './world.ts';

/** A batch by its positions. */
export type Span = { from: number; to: number };

/** The batches of the log that have all their rows in the database, in order. */
export async function wholeBatches({ superuser, first }: World): Promise<Span[]> {
  const { rows } = await superuser.query<Span>(
    `select (last_position - event_count + 1)::float8 as from, last_position::float8 as to
      from daybook.log_batch where last_position - event_count + 1 >= $1 order by last_position`,
    [first],
  );
  return rows;
}

const NODE = 256;

/**
 * Makes everything that hangs on the events fit again from a position on, as an attacker with all privileges
 * and this program's source would: the chain, the tree, and the heads of streams.
 */
export async function makeFit(world: World, from: number): Promise<void> {
  const { superuser } = world;
  const batches = await readBatches(superuser);
  const rows = await readRows(superuser);
  const rowAt = new Map(rows.map((row) => [Number(row[1]), row]));
  const firstOf = (batch: BatchRow): number => Number(batch.lastPosition) - Number(batch.eventCount) + 1;
  const begin = batches.findIndex((batch) => Number(batch.lastPosition) >= from);
  let chain = batches[begin - 1]?.chain as Buffer;
  const leaves = new Map<number, Buffer>();
  const linked: [position: string, chain: Buffer][] = [];
  for (const [index, batch] of batches.entries()) {
    const own: LeafRow[] = [];
    for (let position = firstOf(batch); position <= Number(batch.lastPosition); position++) {
      const row = rowAt.get(position);
      if (row) own.push(row);
      if (row) leaves.set(position, leafOf(row));
    }
    if (begin < 0 || index < begin) continue;
    chain = linkBatch(chain, own, batch);
    linked.push([batch.lastPosition, chain]);
  }
  await superuser.query(
    `update daybook.log_batch b set chain = n.chain
      from unnest($1::bigint[], $2::bytea[]) n(position, chain) where b.last_position = n.position`,
    [linked.map(([position]) => position), linked.map(([, value]) => value)],
  );
  await makeTreeFit(world, from, leaves);
  await makeHeadsFit(superuser);
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

const EVENTS = `select stream, version, type, body from daybook.log where stream is not null union all
    select stream, version, type, body from daybook.log_kept`;

async function makeHeadsFit(superuser: Client): Promise<void> {
  await superuser.query(`with truth as (select stream, max(version) as version from (${EVENTS}) e
    group by stream)
    update daybook.stream_head h set version = t.version from truth t where t.stream = h.stream
      and h.version <> t.version`);
  await superuser.query(`delete from daybook.stream_head h where not exists (select
    from (${EVENTS}) e where e.stream = h.stream
    or h.version = 0 and e.type = 1 and h.stream = 'account-name/' || (e.body::json ->> 'name'))`);
}
