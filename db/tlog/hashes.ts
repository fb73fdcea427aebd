import type { ClientBase } from 'pg';
import { SHARD } from '#db/log/append.ts';
import { entriesOf, leafHash } from '#db/log/chain.ts';
import { ArchivedError, GapError, inRange, readBatches } from '#db/log/read.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { db, rowOf, rowsOf } from '#db/schema/query.ts';
import { subtreeHash, HASH_BYTES, type Subtree } from '#db/tlog/merkle.ts';
import type { ReadHashes } from '#db/tlog/proof.ts';

/**
 * The hashes that proofs consist of, from the database: leaf hashes are computed from the log's entries,
 * those of complete subtrees of 256^n leaves are stored in `daybook.log_node`.
 */

/** A node of level n in `daybook.log_node` covers 256^n leaves. */
export const NODE_BITS = 8;
export const NODE_CHILDREN = 2 ** NODE_BITS;

/** The hashes are of archived events, or are not computed yet. */
export class MissingHashesError extends StoreError {
  override name = 'MissingHashesError';
}

/**
 * The entries of the events above one position up to another, which is at most the head.
 * @throws {MissingHashesError} when the log does not have all of them.
 */
export async function readEntries(client: ClientBase, after: number, upTo: number): Promise<string[]> {
  if (upTo <= after) return [];
  const range = { after, upTo };
  const batches = await readBatches(client, range).catch((error: unknown) => {
    if (error instanceof GapError || error instanceof ArchivedError) return [];
    throw error;
  });
  const entries = batches.flatMap((batch) => inRange(entriesOf(batch), batch, range));
  if (entries.length !== upTo - after)
    throw new MissingHashesError(
      `the events above position ${after} up to ${upTo} are not all in the database: archived events are ` +
        'in the files of the archive',
    );
  return entries;
}

/**
 * Leaf hashes of the events above one position up to another, which is at most the head.
 * @throws {MissingHashesError} when the log does not have all of them.
 */
export async function readLeaves(client: ClientBase, after: number, upTo: number): Promise<Buffer[]> {
  return (await readEntries(client, after, upTo)).map(leafHash);
}

/** Reads stored nodes. @throws {MissingHashesError} when one is missing. */
export async function readNodes(
  client: ClientBase,
  level: number,
  from: number,
  count: number,
): Promise<Buffer[]> {
  const query = db
    .selectFrom('daybook.log_node')
    .select('hash')
    .where('shard', '=', SHARD)
    .where('level', '=', level)
    .where('number', '>=', String(from))
    .where('number', '<', String(from + count))
    .orderBy('number');
  const rows = await rowsOf(client, query, 'read_nodes');
  if (rows.length !== count)
    throw new MissingHashesError(
      'the tree is not built up to there yet: the worker builds it with each checkpoint',
    );
  return rows.map(({ hash }) => hash);
}

/** The number of stored nodes of a level, which have no gaps. */
export async function countNodes(client: ClientBase, level: number): Promise<number> {
  const query = db
    .selectFrom('daybook.log_node')
    .select(({ fn }) => fn.max('number').as('last'))
    .where('shard', '=', SHARD)
    .where('level', '=', level);
  const last = (await rowOf(client, query))?.last ?? null;
  return last === null ? 0 : Number(last) + 1;
}

/** Reads hashes of complete subtrees from a database. */
export function hashesIn(client: ClientBase): ReadHashes {
  return async (subtrees) => {
    const found: Buffer[] = [];
    for (const subtree of subtrees) found.push(subtreeHash(await readChildren(client, subtree)));
    return found;
  };
}

/** The hashes of the next stored level below a subtree, or its own hash. */
function readChildren(client: ClientBase, { level, number }: Subtree): Promise<Buffer[]> {
  const count = 2 ** (level % NODE_BITS);
  const nodeLevel = Math.floor(level / NODE_BITS);
  return nodeLevel === 0
    ? readLeaves(client, number * count, (number + 1) * count)
    : readNodes(client, nodeLevel, number * count, count);
}

/** Splits concatenated hashes. */
export function splitHashes(hashes: Buffer): Buffer[] {
  return Array.from({ length: hashes.length / HASH_BYTES }, (_, at) =>
    hashes.subarray(at * HASH_BYTES, (at + 1) * HASH_BYTES),
  );
}
