import type { ClientBase } from 'pg';
import { SHARD } from '#db/log/append.ts';
import { countOf, db, rowOf } from '#db/schema/query.ts';
import { formatSignature, type Signature } from '#db/tlog/note.ts';

/** The checkpoints stored in the database, with the cosignatures of witnesses. */

/** A signed note, with the signature lines of the witnesses that cosigned it. */
export type StoredCheckpoint = {
  epoch: number;
  size: number;
  note: string;
  publishedAt: Date;
  cosignatures: string[];
};

const COLUMNS = `c.epoch, c.size::float8 as size, c.note, c.published_at as "publishedAt",
  array(select line from daybook.cosignature g
    where g.shard = c.shard and g.epoch = c.epoch and g.size = c.size
    order by received_at, witness) as cosignatures`;
const NEWEST = 'order by epoch desc, size desc limit 1';

/** The newest checkpoint of the newest epoch; null before the first one. */
export async function readNewestCheckpoint(client: ClientBase): Promise<StoredCheckpoint | null> {
  const { rows } = await client.query<StoredCheckpoint>({
    name: 'newest_checkpoint',
    text: `select ${COLUMNS} from daybook.checkpoint c where shard = $1 ${NEWEST}`,
    values: [SHARD],
  });
  return rows[0] ?? null;
}

/** The checkpoint of this size, of the newest epoch that has one; null if none has. */
export async function readCheckpointOfSize(
  client: ClientBase,
  size: number,
): Promise<StoredCheckpoint | null> {
  const { rows } = await client.query<StoredCheckpoint>({
    text: `select ${COLUMNS} from daybook.checkpoint c where shard = $1 and size = $2 ${NEWEST}`,
    values: [SHARD, size],
  });
  return rows[0] ?? null;
}

/** How many of the newest checkpoints are considered for the one with the most cosignatures. */
const COVERING_CANDIDATES_MAX = 32;

/**
 * Of the newest checkpoints that cover a position, the one with the most cosignatures, since witnesses are
 * some seconds behind; null if none covers it.
 */
export async function readCoveringCheckpoint(
  client: ClientBase,
  position: number,
): Promise<StoredCheckpoint | null> {
  const { rows } = await client.query<StoredCheckpoint>({
    text: `select * from (select ${COLUMNS} from daybook.checkpoint c
        where shard = $1 and size >= $2 and epoch = (select max(epoch) from daybook.checkpoint
          where shard = $1)
        order by size desc limit ${COVERING_CANDIDATES_MAX}) newest
      order by cardinality(cosignatures) desc, size desc limit 1`,
    values: [SHARD, position],
  });
  return rows[0] ?? null;
}

/** Whether the checkpoint of an epoch and size is stored. */
export async function hasCheckpoint(
  client: ClientBase,
  { epoch, size }: Pick<StoredCheckpoint, 'epoch' | 'size'>,
): Promise<boolean> {
  const query = db
    .selectFrom('daybook.checkpoint')
    .select('size')
    .where('shard', '=', SHARD)
    .where('epoch', '=', epoch)
    .where('size', '=', String(size));
  return (await rowOf(client, query)) !== undefined;
}

/** Stores a published checkpoint. One of the same epoch and size is kept. */
export async function insertCheckpoint(
  client: ClientBase,
  { epoch, size, note, publishedAt }: Omit<StoredCheckpoint, 'cosignatures'>,
): Promise<void> {
  const row = { shard: SHARD, epoch, size: String(size), note, published_at: publishedAt };
  await countOf(
    client,
    db
      .insertInto('daybook.checkpoint')
      .values(row)
      .onConflict((conflict) => conflict.doNothing()),
  );
}

/** The note with the signature lines of its witnesses appended. */
export const withCosignatures = ({
  note,
  cosignatures,
}: Pick<StoredCheckpoint, 'note' | 'cosignatures'>): string => note + cosignatures.join('');

/** Stores a cosignature that the caller has verified. An earlier one of the same witness is kept. */
export async function insertCosignature(
  client: ClientBase,
  { epoch, size }: Pick<StoredCheckpoint, 'epoch' | 'size'>,
  signature: Signature,
): Promise<void> {
  await client.query(
    `insert into daybook.cosignature (shard, epoch, size, witness, line) values ($1, $2, $3, $4, $5)
      on conflict do nothing`,
    [SHARD, epoch, size, signature.name, formatSignature(signature)],
  );
}

/** The age in milliseconds of the oldest event above a position; 0 if no event is newer. */
export async function readWaitingMs(client: ClientBase, size: number): Promise<number> {
  const { rows } = await client.query<{ age_ms: number }>({
    name: 'waiting_ms',
    text: `select coalesce(extract(epoch from clock_timestamp() - (select at from daybook.log_batch
      where shard = $1 and last_position > $2 order by last_position limit 1)), 0)::float8 * 1000 as age_ms`,
    values: [SHARD, size],
  });
  return Math.max(0, Math.round(rows[0]?.age_ms ?? 0));
}
