import type { ClientBase } from 'pg';
import { SHARD } from '#db/log/append.ts';
import { firstPosition } from '#db/log/read.ts';
import { countNodes, NODE_CHILDREN, readLeaves, readNodes } from '#db/tlog/hashes.ts';
import { completed } from '#db/tlog/merkle.ts';
import { writeTile } from '#db/tlog/published.ts';

/** Subtrees whose leaves are read at once: half a megabyte of hashes. */
const PAGE_SUBTREES = 64;
/** Levels of nodes: six stand for more leaves than there are positions. */
const LEVELS = 6;

/** Brings the nodes in the database on to the head, each level from where it stands. */
export async function growNodes(client: ClientBase, head: number): Promise<void> {
  const end = Math.floor(head / NODE_CHILDREN);
  for (let from = await countNodes(client, 1); from < end; from += PAGE_SUBTREES) {
    const tiles = await readTiles(client, from, Math.min(from + PAGE_SUBTREES, end));
    await keepNodes(client, 1, from, tiles.map(completed));
  }
  for (let level = 2; level <= LEVELS; level++) {
    const below = Math.floor((await countNodes(client, level - 1)) / NODE_CHILDREN);
    for (let number = await countNodes(client, level); number < below; number++) {
      await keepNodes(client, level, number, [
        completed(await readNodes(client, level - 1, number * NODE_CHILDREN, NODE_CHILDREN)),
      ]);
    }
  }
}

/**
 * Writes the tiles of a tree of this size that a directory has not. Done again after it was broken
 * off, it writes the same.
 * @param publishedSize the size of the tree that is there.
 */
export async function writeTiles(
  client: ClientBase,
  size: number,
  { directory, publishedSize }: { directory: string; publishedSize: number },
): Promise<void> {
  // Tiles of what was archived before there was a directory can't be made, and nobody asks for them.
  const first = Math.ceil(((await firstPosition(client)) - 1) / NODE_CHILDREN);
  const end = Math.floor(size / NODE_CHILDREN);
  for (
    let from = Math.max(first, Math.floor(publishedSize / NODE_CHILDREN));
    from < end;
    from += PAGE_SUBTREES
  ) {
    const tiles = await readTiles(client, from, Math.min(from + PAGE_SUBTREES, end));
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

/** The leaves of subtrees of 256, from one up to, but without, another. */
async function readTiles(client: ClientBase, from: number, to: number): Promise<Buffer[][]> {
  const leaves = await readLeaves(client, from * NODE_CHILDREN, to * NODE_CHILDREN);
  return Array.from({ length: to - from }, (_, at) =>
    leaves.slice(at * NODE_CHILDREN, (at + 1) * NODE_CHILDREN),
  );
}

async function keepNodes(
  client: ClientBase,
  level: number,
  from: number,
  hashes: readonly Buffer[],
): Promise<void> {
  await client.query(
    'insert into daybook.log_node (shard, level, number, hash) select $1, $2, $3 + ordinality - 1, hash from unnest($4::bytea[]) with ordinality as node(hash)',
    [SHARD, level, from, hashes],
  );
}
