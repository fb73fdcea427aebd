import type { ClientBase } from 'pg';
import { SHARD } from '#db/log/append.ts';
import { firstPosition } from '#db/log/read.ts';
import { countOf, db } from '#db/schema/query.ts';
import { countNodes, NODE_CHILDREN, readLeaves, readNodes } from '#db/tlog/hashes.ts';
import { subtreeHash } from '#db/tlog/merkle.ts';
import { writeTile } from '#db/tlog/publish-directory.ts';

/** Subtrees whose leaves are hashed at once, which takes some ten milliseconds. */
const PAGE_SUBTREES = 16;
/** Stored levels: six cover more leaves than there can be positions. */
const LEVELS = 6;

/** Completes the stored nodes up to the head, each level from its last node. */
export async function growNodes(client: ClientBase, head: number): Promise<void> {
  const end = Math.floor(head / NODE_CHILDREN);
  for (let from = await countNodes(client, 1); from < end; from += PAGE_SUBTREES) {
    const tiles = await readLeafTiles(client, from, Math.min(from + PAGE_SUBTREES, end));
    await insertNodes(client, 1, from, tiles.map(subtreeHash));
  }
  for (let level = 2; level <= LEVELS; level++) {
    const below = Math.floor((await countNodes(client, level - 1)) / NODE_CHILDREN);
    for (let number = await countNodes(client, level); number < below; number++) {
      await insertNodes(client, level, number, [
        subtreeHash(await readNodes(client, level - 1, number * NODE_CHILDREN, NODE_CHILDREN)),
      ]);
    }
  }
}

/**
 * Writes the tiles of a tree of this size that a directory lacks. Idempotent after an interruption.
 * @param publishedSize the size of the tree in the directory.
 */
export async function writeTiles(
  client: ClientBase,
  size: number,
  { directory, publishedSize }: { directory: string; publishedSize: number },
): Promise<void> {
  // Tiles of events archived before the first publication can't be computed, and are not needed.
  const first = Math.ceil(((await firstPosition(client)) - 1) / NODE_CHILDREN);
  const end = Math.floor(size / NODE_CHILDREN);
  for (
    let from = Math.max(first, Math.floor(publishedSize / NODE_CHILDREN));
    from < end;
    from += PAGE_SUBTREES
  ) {
    const tiles = await readLeafTiles(client, from, Math.min(from + PAGE_SUBTREES, end));
    for (const [at, tile] of tiles.entries()) await writeTile(directory, 0, from + at, Buffer.concat(tile));
  }
  if (size % NODE_CHILDREN > 0)
    await writeTile(directory, 0, end, Buffer.concat(await readLeaves(client, end * NODE_CHILDREN, size)));
  for (let level = 1, width = NODE_CHILDREN; width <= size; level++, width *= NODE_CHILDREN) {
    const count = Math.floor(size / width);
    for (
      let from = Math.floor(publishedSize / width / NODE_CHILDREN) * NODE_CHILDREN;
      from < count;
      from += NODE_CHILDREN
    ) {
      await writeTile(
        directory,
        level,
        from / NODE_CHILDREN,
        Buffer.concat(await readNodes(client, level, from, Math.min(NODE_CHILDREN, count - from))),
      );
    }
  }
}

/** The leaves of the subtrees of 256 from number `from` to `to`, exclusive. */
async function readLeafTiles(client: ClientBase, from: number, to: number): Promise<Buffer[][]> {
  const leaves = await readLeaves(client, from * NODE_CHILDREN, to * NODE_CHILDREN);
  return Array.from({ length: to - from }, (_, at) =>
    leaves.slice(at * NODE_CHILDREN, (at + 1) * NODE_CHILDREN),
  );
}

async function insertNodes(
  client: ClientBase,
  level: number,
  from: number,
  hashes: readonly Buffer[],
): Promise<void> {
  if (hashes.length === 0) return;
  const rows = hashes.map((hash, index) => ({ shard: SHARD, level, number: from + index, hash }));
  await countOf(client, db.insertInto('daybook.log_node').values(rows));
}
