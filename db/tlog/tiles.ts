import type { ClientBase } from 'pg';
import {
  hashesIn,
  MissingHashesError,
  NODE_BITS,
  NODE_CHILDREN,
  readLeaves,
  readNodes,
  splitHashes,
} from '#db/tlog/hashes.ts';
import { subtreeHash, type Subtree } from '#db/tlog/merkle.ts';
import type { ReadHashes } from '#db/tlog/proof.ts';
import { readLeafTile, readNodeTile, tilePath } from '#db/tlog/publish-directory.ts';

/**
 * Hashes of complete subtrees, read by full tiles of 256: the hashes of one or more proofs are mostly in a
 * few tiles. Tiles come from the database or from a publish directory.
 */

/** A source of tiles. A node of tile level n covers 256^n leaves. */
type TileSource = {
  /** The hashes of a tile, from its first one on; null if the source lacks the tile. */
  readTile(level: number, number: number): Promise<readonly Buffer[] | null>;
  /** Reads a subtree whose hashes its tile lacks. @throws {MissingHashesError} */
  readMissing(subtree: Subtree, level: number, number: number): Promise<Buffer>;
};

/** Reads hashes of complete subtrees from tiles, each of which is read once. */
function hashesFrom({ readTile, readMissing }: TileSource): ReadHashes {
  const tiles = new Map<string, Promise<readonly Buffer[] | null>>();
  function tileOf(level: number, number: number): Promise<readonly Buffer[] | null> {
    const name = `${level}/${number}`;
    const tile = tiles.get(name) ?? readTile(level, number);
    tiles.set(name, tile);
    return tile;
  }
  async function hashOf(subtree: Subtree): Promise<Buffer> {
    const count = 2 ** (subtree.level % NODE_BITS);
    const first = subtree.number * count;
    const [level, number] = [Math.floor(subtree.level / NODE_BITS), Math.floor(first / NODE_CHILDREN)];
    const tile = await tileOf(level, number);
    const hashes = tile?.slice(first % NODE_CHILDREN, (first % NODE_CHILDREN) + count);
    return hashes?.length === count ? subtreeHash(hashes) : readMissing(subtree, level, number);
  }
  return async (subtrees) => {
    const found: Buffer[] = [];
    for (const subtree of subtrees) found.push(await hashOf(subtree));
    return found;
  };
}

/** Reads hashes from a database. @param size of the tree. */
export function hashesFromDatabase(client: ClientBase, size: number): ReadHashes {
  const exact = hashesIn(client);
  return hashesFrom({
    readTile: (level, number) =>
      readDatabaseTile(client, size, level, number).catch((error: unknown) => {
        if (error instanceof MissingHashesError) return null;
        throw error;
      }),
    // If a part of the tile is archived, this hash may still be in the database.
    readMissing: async (subtree) => (await exact([subtree]))[0] as Buffer,
  });
}

/** Reads hashes from a publish directory. @param size of the tree that is published there. */
export function hashesFromDirectory(directory: string, size: number): ReadHashes {
  return hashesFrom({
    async readTile(level, number) {
      const tile = await (level === 0
        ? readLeafTile(directory, number)
        : readNodeTile(directory, size, level, number));
      return tile && splitHashes(tile);
    },
    readMissing: (_subtree, level, number) =>
      Promise.reject(new MissingHashesError(`${directory} lacks the tile ${tilePath(level, number)}`)),
  });
}

/**
 * The hashes of a tile in a tree of this size.
 * @throws {MissingHashesError} when the database lacks some of them.
 */
export function readDatabaseTile(
  client: ClientBase,
  size: number,
  level: number,
  number: number,
): Promise<Buffer[]> {
  const from = number * NODE_CHILDREN;
  const to = Math.min(from + NODE_CHILDREN, Math.floor(size / NODE_CHILDREN ** level));
  return level === 0 ? readLeaves(client, from, to) : readNodes(client, level, from, Math.max(0, to - from));
}
