import type { ClientBase } from 'pg';
import { SHARD } from '#db/log/append.ts';
import { formatSignature, type Signature } from '#db/tlog/note.ts';

/** Checkpoints that the database keeps beside the log, with what witnesses have signed of them. */

/** A note as it was signed, with the lines of the witnesses that have cosigned it. */
export type StoredCheckpoint = {
  epoch: number;
  size: number;
  note: string;
  publishedAt: Date;
  cosignatures: string[];
};

const COLUMNS = `c.epoch, c.size::float8 as size, c.note, c.published_at as "publishedAt", array(select line from daybook.cosignature g
  where g.shard = c.shard and g.epoch = c.epoch and g.size = c.size order by received_at, witness) as cosignatures`;
const NEWEST = 'order by epoch desc, size desc limit 1';

/** The newest checkpoint of the newest epoch; null where none is. */
export async function readNewestCheckpoint(client: ClientBase): Promise<StoredCheckpoint | null> {
  const { rows } = await client.query<StoredCheckpoint>({
    name: 'newest_checkpoint',
    text: `select ${COLUMNS} from daybook.checkpoint c where shard = $1 ${NEWEST}`,
    values: [SHARD],
  });
  return rows[0] ?? null;
}

/** The newest checkpoint of this size; null where none is. */
export async function readCheckpointOf(client: ClientBase, size: number): Promise<StoredCheckpoint | null> {
  const { rows } = await client.query<StoredCheckpoint>({
    text: `select ${COLUMNS} from daybook.checkpoint c where shard = $1 and size = $2 ${NEWEST}`,
    values: [SHARD, size],
  });
  return rows[0] ?? null;
}

/**
 * How many of the newest checkpoints are looked at for one that more witnesses have cosigned: those of the
 * last minutes.
 */
const COVERING_LOOK_MAX = 32;

/**
 * Of the newest checkpoints that cover a position the one that most witnesses have cosigned, since
 * they are some seconds behind; null where none covers it.
 */
export async function readCovering(client: ClientBase, position: number): Promise<StoredCheckpoint | null> {
  const { rows } = await client.query<StoredCheckpoint>({
    text: `select * from (select ${COLUMNS} from daybook.checkpoint c
        where shard = $1 and size >= $2 and epoch = (select max(epoch) from daybook.checkpoint where shard = $1)
        order by size desc limit ${COVERING_LOOK_MAX}) newest
      order by cardinality(cosignatures) desc, size desc limit 1`,
    values: [SHARD, position],
  });
  return rows[0] ?? null;
}

/** The note with the lines of its witnesses below it. */
export const withCosignatures = ({
  note,
  cosignatures,
}: Pick<StoredCheckpoint, 'note' | 'cosignatures'>): string => note + cosignatures.join('');

/**
 * Keeps what a witness has signed, which the caller has verified. What came before of it for the same
 * checkpoint stays.
 */
export async function keepCosignature(
  client: ClientBase,
  { epoch, size }: Pick<StoredCheckpoint, 'epoch' | 'size'>,
  signature: Signature,
): Promise<void> {
  await client.query(
    'insert into daybook.cosignature (shard, epoch, size, witness, line) values ($1, $2, $3, $4, $5) on conflict do nothing',
    [SHARD, epoch, size, signature.name, formatSignature(signature)],
  );
}

/** For how many milliseconds the oldest event above a position has been in the log; 0 where there is none. */
export async function readWaitingMs(client: ClientBase, size: number): Promise<number> {
  const { rows } = await client.query<{ age_ms: number }>({
    name: 'waiting_ms',
    text: `select coalesce(extract(epoch from clock_timestamp() - (select at from daybook.log_batch where shard = $1 and last_position > $2 order by last_position limit 1)), 0)::float8 * 1000 as age_ms`,
    values: [SHARD, size],
  });
  return Math.max(0, Math.round(rows[0]?.age_ms ?? 0));
}
