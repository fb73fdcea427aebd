import type { ClientBase } from 'pg';
import { type Batch, type BatchRow, type Damage, entriesOf, genesis, verifyBatch } from '#db/log/chain.ts';

/** Values in PostgreSQL's text format, which is what the chain covers. */
const AS_TEXT = { getTypeParser: () => (value: unknown) => value };

const PAGE_BATCHES = 5_000;

type Stored = Omit<BatchRow, 'chain'> & { chain: string; events: string | null; agrees: 't' | 'f' };

const READ = `select b.shard, b.last_position as "lastPosition", b.event_count as "eventCount", b.instance,
    b.batch_no as "batchNo", (extract(epoch from b.at) * 1000000)::bigint as at, b.format,
    encode(b.chain, 'hex') as chain, l.events,
    (l.event_count, l.instance, l.at) is not distinct from (b.event_count, b.instance, b.at) as agrees
  from daybook.log_batch b left join daybook.log l using (shard, last_position)
  where last_position > $1 order by last_position limit $2`;

/** Batches with their events, null where they are not in the log, and whether its row has the same header. */
async function readStored(
  client: ClientBase,
  after: number,
  limit: number | null,
): Promise<{ row: BatchRow; events: string | null; agrees: boolean }[]> {
  const { rows } = await client.query<Stored>({ text: READ, values: [after, limit], types: AS_TEXT });
  return rows.map(({ events, agrees, ...row }) => ({
    row: { ...row, chain: Buffer.from(row.chain, 'hex') },
    events,
    agrees: agrees === 't',
  }));
}

/** The batches whose events are in the log. */
export async function readBatches(
  client: ClientBase,
  after = 0,
  limit: number | null = null,
): Promise<Batch[]> {
  const stored = await readStored(client, after, limit);
  return stored.flatMap(({ row, events }) => (events === null ? [] : [{ row, events }]));
}

/** The entries of the log, in the order of their positions. */
export async function readEntries(client: ClientBase, after = 0): Promise<string[]> {
  return (await readBatches(client, after)).flatMap(entriesOf);
}

/** Recomputes the hash chain from its first batch. @returns the first damage; null if the chain is valid. */
export async function verifyChain(client: ClientBase): Promise<Damage | null> {
  const { rows } = await client.query<{ log_id: string }>('select log_id from daybook.install');
  let link = { position: 0, chain: genesis(rows[0]?.log_id ?? '') };
  for (;;) {
    const batches = await readStored(client, link.position, PAGE_BATCHES);
    for (const { row, events, agrees } of batches) {
      const position = link.position + 1;
      if (events === null) return { position, problem: 'missing' };
      if (!agrees) return { position, problem: 'its row has another header than its batch' };
      const damage = verifyBatch(link, { row, events });
      if (damage !== null) return damage;
      link = { position: Number(row.lastPosition), chain: row.chain };
    }
    if (batches.length < PAGE_BATCHES) break;
  }
  const surplus = await client.query(
    'select from daybook.log l left join daybook.log_batch b using (shard, last_position) where b is null',
  );
  return surplus.rows.length === 0 ? null : { position: link.position + 1, problem: 'belongs to no batch' };
}
