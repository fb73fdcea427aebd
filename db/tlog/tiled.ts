import type { ClientBase } from 'pg';
import {
  hashesIn,
  MissingHashesError,
  NODE_BITS,
  NODE_CHILDREN,
  readLeaves,
  readNodes,
} from '#db/tlog/hashes.ts';
import { completed, type Subtree } from '#db/tlog/merkle.ts';
import type { ReadHashes } from '#db/tlog/proof.ts';

/**
 * Gives hashes from a database by whole tiles of 256, each read once: the hashes of a proof, and those
 * of several proofs together, mostly lie in a few.
 * @param size that of the tree, beyond which nothing is asked for.
 */
export function hashesByTile(client: ClientBase, size: number): ReadHashes {
  const exact = hashesIn(client);
  const tiles = new Map<string, Promise<Buffer[] | null>>();
  function tileOf(nodeLevel: number, number: number): Promise<Buffer[] | null> {
    const name = `${nodeLevel}/${number}`;
    const known = tiles.get(name);
    if (known) return known;
    const read = readTile(client, size, nodeLevel, number).catch((error: unknown) => {
      if (error instanceof MissingHashesError) return null;
      throw error;
    });
    tiles.set(name, read);
    return read;
  }
  async function hashOf(subtree: Subtree): Promise<Buffer> {
    const count = 2 ** (subtree.level % NODE_BITS);
    const first = subtree.number * count;
    const tile = await tileOf(Math.floor(subtree.level / NODE_BITS), Math.floor(first / NODE_CHILDREN));
    const hashes = tile?.slice(first % NODE_CHILDREN, (first % NODE_CHILDREN) + count);
    // A tile of which a part has left the database may still have this one.
    return hashes?.length === count ? completed(hashes) : ((await exact([subtree]))[0] as Buffer);
  }
  return async (subtrees) => {
    const found: Buffer[] = [];
    for (const subtree of subtrees) found.push(await hashOf(subtree));
    return found;
  };
}

/**
 * The hashes of a tile as far as a tree of this size has them. @throws {MissingHashesError} when the database
 * has not all of them.
 */
export function readTile(
  client: ClientBase,
  size: number,
  nodeLevel: number,
  number: number,
): Promise<Buffer[]> {
  const from = number * NODE_CHILDREN;
  const to = Math.min(from + NODE_CHILDREN, Math.floor(size / NODE_CHILDREN ** nodeLevel));
  return nodeLevel === 0
    ? readLeaves(client, from, to)
    : readNodes(client, nodeLevel, from, Math.max(0, to - from));
}
