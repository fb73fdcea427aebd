import type { ClientBase } from 'pg';
import {
  type BatchRow,
  type Damage,
  genesis,
  LEAF_COLUMNS,
  type LeafRow,
  verifyBatches,
} from '#db/log/chain.ts';

/** Values in PostgreSQL's text format, which is what leaf hashes cover. */
const AS_TEXT = { getTypeParser: () => (value: unknown) => value };

const PAGE_BATCHES = 5_000;

/** Beyond every position. */
const LAST = Number.MAX_SAFE_INTEGER;

export async function readRows(client: ClientBase, after = 0, upTo = LAST): Promise<LeafRow[]> {
  const { rows } = await client.query<(string | null)[]>({
    text: `select ${LEAF_COLUMNS} from daybook.log where position > $1 and position <= $2
      order by position`,
    values: [after, upTo],
    rowMode: 'array',
    types: AS_TEXT,
  });
  return rows;
}

export async function readBatches(
  client: ClientBase,
  after = 0,
  limit: number | null = null,
): Promise<BatchRow[]> {
  const { rows } = await client.query<Omit<BatchRow, 'chain'> & { chain: string }>({
    text: `select shard, last_position as "lastPosition", event_count as "eventCount", instance,
      batch_no as "batchNo",
      (extract(epoch from at) * 1000000)::bigint as at, format, encode(chain, 'hex') as chain
      from daybook.log_batch where last_position > $1 order by last_position limit $2`,
    values: [after, limit],
    types: AS_TEXT,
  });
  return rows.map((row) => ({ ...row, chain: Buffer.from(row.chain, 'hex') }));
}

/** Recomputes the hash chain from its first batch. @returns the first damage; null if the chain is valid. */
export async function verifyChain(client: ClientBase): Promise<Damage | null> {
  const { rows } = await client.query<{ log_id: string }>('select log_id from daybook.install');
  let start = { position: 0, chain: genesis(rows[0]?.log_id ?? '') };
  for (;;) {
    const batches = await readBatches(client, start.position, PAGE_BATCHES);
    const last = batches.at(-1);
    const upTo = last && batches.length === PAGE_BATCHES ? Number(last.lastPosition) : LAST;
    const damage = verifyBatches(start, batches, await readRows(client, start.position, upTo));
    if (damage !== null || !last || upTo === LAST) return damage;
    start = { position: upTo, chain: last.chain };
  }
}
