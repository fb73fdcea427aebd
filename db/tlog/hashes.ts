import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { LEAF_COLUMNS } from '#db/log/chain.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { SHARD } from '#db/log/append.ts';
import { db, type Placeholders, prepare, rowOf, rowsOf } from '#db/schema/query.ts';
import { subtreeHash, HASH_BYTES, type Subtree } from '#db/tlog/merkle.ts';
import type { ReadHashes } from '#db/tlog/proof.ts';

/**
 * The hashes that proofs consist of, from the database: leaf hashes are computed from the log's rows, those
 * of complete subtrees of 256^n leaves are stored in `daybook.log_node`.
 */

/** A node of level n in `daybook.log_node` covers 256^n leaves. */
export const NODE_BITS = 8;
export const NODE_CHILDREN = 2 ** NODE_BITS;

/** The hashes are of archived events, or are not computed yet. */
export class MissingHashesError extends StoreError {
  override name = 'MissingHashesError';
}

// One value: no leaf costs a row of its own.
const LEAVES = sql<Buffer | null>`string_agg(sha256('\\x00'::bytea || convert_to(
  row(${sql.raw(LEAF_COLUMNS)})::text, 'UTF8')), ''::bytea order by position)`;
const selectLeaves = prepare(
  'read_leaves',
  ({ after, upTo }: Placeholders<{ after: string; upTo: string }>) =>
    db
      .selectFrom('daybook.log')
      .select(LEAVES.as('leaves'))
      .where('shard', '=', SHARD)
      .where('position', '>', after)
      .where('position', '<=', upTo),
);

/**
 * Leaf hashes of the events above one position up to another, which is at most the head.
 * @throws {MissingHashesError} when the log does not have all of them.
 */
export async function readLeaves(client: ClientBase, after: number, upTo: number): Promise<Buffer[]> {
  if (upTo <= after) return [];
  const [row] = await selectLeaves(client, { after: String(after), upTo: String(upTo) });
  const leaves = splitHashes(row?.leaves ?? Buffer.alloc(0));
  if (leaves.length !== upTo - after)
    throw new MissingHashesError(
      `the events above position ${after} up to ${upTo} are not all in the database: archived events ` +
        'are proven by their files',
    );
  return leaves;
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
