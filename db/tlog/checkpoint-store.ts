import { sql } from 'kysely';
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

const COSIGNATURES = sql<string[]>`array(select line from daybook.cosignature g
  where g.shard = c.shard and g.epoch = c.epoch and g.size = c.size order by received_at, witness)`;

/** All checkpoints, the newest epoch and its largest size first. */
const newestFirst = () =>
  db
    .selectFrom('daybook.checkpoint as c')
    .select(['c.epoch', 'c.note', 'c.published_at as publishedAt'])
    .select([sql<number>`c.size::float8`.as('size'), COSIGNATURES.as('cosignatures')])
    .where('c.shard', '=', SHARD)
    .orderBy('c.epoch', 'desc')
    .orderBy('c.size', 'desc');

/** Selects the newest checkpoint of the newest epoch, for queries that need some of its columns. */
export const selectNewestCheckpoint = () =>
  db
    .selectFrom('daybook.checkpoint')
    .where('shard', '=', SHARD)
    .orderBy('epoch', 'desc')
    .orderBy('size', 'desc')
    .limit(1);

/** The newest checkpoint of the newest epoch; null before the first one. */
export async function readNewestCheckpoint(client: ClientBase): Promise<StoredCheckpoint | null> {
  return (await rowOf(client, newestFirst().limit(1), 'newest_checkpoint')) ?? null;
}

/** The checkpoint of this size, of the newest epoch that has one; null if none has. */
export async function readCheckpointOfSize(
  client: ClientBase,
  size: number,
): Promise<StoredCheckpoint | null> {
  return (await rowOf(client, newestFirst().where('c.size', '=', String(size)).limit(1))) ?? null;
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
  const epoch = db
    .selectFrom('daybook.checkpoint')
    .select(({ fn }) => fn.max('epoch').as('epoch'))
    .where('shard', '=', SHARD);
  const newest = newestFirst()
    .where('c.size', '>=', String(position))
    .where('c.epoch', '=', epoch)
    .limit(COVERING_CANDIDATES_MAX);
  const query = db
    .selectFrom(newest.as('newest'))
    .selectAll()
    .orderBy(sql`cardinality(cosignatures)`, 'desc')
    .orderBy('size', 'desc')
    .limit(1);
  return (await rowOf(client, query)) ?? null;
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

const KEY_ID_BYTES = 4;

/**
 * The part of a checkpoint that only these witnesses signed, and the verifier keys of those that did.
 * @param verifierKeys in the format of C2SP signed notes.
 */
export function cosignedBy(
  { note, cosignatures }: Pick<StoredCheckpoint, 'note' | 'cosignatures'>,
  verifierKeys: readonly string[],
): { checkpoint: string; witnesses: string[] } {
  const byWitnesses = cosignatures.filter((line) => verifierKeys.some((key) => isOf(line, key)));
  return {
    checkpoint: withCosignatures({ note, cosignatures: byWitnesses }),
    witnesses: verifierKeys.filter((key) => byWitnesses.some((line) => isOf(line, key))),
  };
}

/** Whether this key made a cosignature line, which has its name and, first in its base64, the key's id. */
function isOf(cosignature: string, verifierKey: string): boolean {
  const [, name, encoded = ''] = cosignature.trimEnd().split(' ');
  const keyId = Buffer.from(encoded, 'base64').toString('hex', 0, KEY_ID_BYTES);
  return verifierKey.startsWith(`${name}+${keyId}+`);
}

/** Stores a cosignature that the caller has verified. An earlier one of the same witness is kept. */
export async function insertCosignature(
  client: ClientBase,
  { epoch, size }: Pick<StoredCheckpoint, 'epoch' | 'size'>,
  signature: Signature,
): Promise<void> {
  const line = formatSignature(signature);
  const row = { shard: SHARD, epoch, size: String(size), witness: signature.name, line };
  await countOf(
    client,
    db
      .insertInto('daybook.cosignature')
      .values(row)
      .onConflict((conflict) => conflict.doNothing()),
  );
}
