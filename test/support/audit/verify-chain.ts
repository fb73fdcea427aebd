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

export async function readRows(client: ClientBase): Promise<LeafRow[]> {
  const { rows } = await client.query<(string | null)[]>({
    text: `select ${LEAF_COLUMNS} from daybook.log order by position`,
    rowMode: 'array',
    types: AS_TEXT,
  });
  return rows;
}

export async function readBatches(client: ClientBase): Promise<BatchRow[]> {
  const { rows } = await client.query<Omit<BatchRow, 'chain'> & { chain: string }>({
    text: `select shard, last_position as "lastPosition", event_count as "eventCount", instance,
      batch_no as "batchNo",
      (extract(epoch from at) * 1000000)::bigint as at, format, encode(chain, 'hex') as chain
      from daybook.log_batch order by last_position`,
    types: AS_TEXT,
  });
  return rows.map((row) => ({ ...row, chain: Buffer.from(row.chain, 'hex') }));
}

/** Recomputes the hash chain from its first batch. @returns the first damage; null if the chain is valid. */
export async function verifyChain(client: ClientBase): Promise<Damage | null> {
  const { rows } = await client.query<{ log_id: string }>('select log_id from daybook.install');
  const start = { position: 0, chain: genesis(rows[0]?.log_id ?? '') };
  return verifyBatches(start, await readBatches(client), await readRows(client));
}
