import type { PublishedLeaves } from '#db/audit/verify/log-verifier.ts';
import { MissingHashesError, NODE_CHILDREN } from '#db/tlog/hashes.ts';
import { HASH_BYTES, type Head } from '#db/tlog/merkle.ts';
import { inclusionSpans, readSpans, rootByInclusion } from '#db/tlog/proof.ts';
import { readLeafTile, TILE_BYTES } from '#db/tlog/publish-directory.ts';
import { hashesFromDirectory } from '#db/tlog/tiles.ts';
import { CACHED_TILES_MAX } from '#db/audit/bounds.ts';

/** The published leaf hashes, loaded tile by tile while the log is read. */
export class PublishedTiles implements PublishedLeaves {
  readonly #directory: string | null;
  readonly #tiles = new Map<number, Buffer | null>();

  /** @param directory that the log is published in; null if not available. */
  constructor(directory: string | null) {
    this.#directory = directory;
  }

  /** Loads the tiles of these positions, which come in ascending order. */
  async load(positions: Iterable<number>): Promise<void> {
    if (this.#directory === null) return;
    let last = -1;
    for (const position of positions) {
      const number = tileOf(position);
      if (number === last || !Number.isSafeInteger(number)) continue;
      last = number;
      if (!this.#tiles.has(number)) this.#tiles.set(number, await readLeafTile(this.#directory, number));
    }
    for (const number of this.#tiles.keys()) {
      if (this.#tiles.size <= CACHED_TILES_MAX) break;
      this.#tiles.delete(number);
    }
  }

  compare(from: number, leaves: Buffer): { different: number[]; isComplete: boolean } {
    const different: number[] = [];
    let isComplete = true;
    for (let at = 0; at < leaves.length;) {
      const position = from + at / HASH_BYTES;
      const inTile = ((position - 1) % NODE_CHILDREN) * HASH_BYTES;
      const end = Math.min(leaves.length, at + TILE_BYTES - inTile);
      const tile = this.#tiles.get(tileOf(position));
      const known = Math.max(0, Math.min((tile?.length ?? 0) - inTile, end - at));
      isComplete &&= known === end - at;
      if (tile != null && known > 0 && tile.compare(leaves, at, at + known, inTile, inTile + known) !== 0) {
        for (let each = 0; each < known; each += HASH_BYTES) {
          if (
            tile.compare(
              leaves,
              at + each,
              at + each + HASH_BYTES,
              inTile + each,
              inTile + each + HASH_BYTES,
            ) !== 0
          )
            different.push(position + each / HASH_BYTES);
        }
      }
      at = end;
    }
    return { different, isComplete };
  }
}

/** The number of the tile with the leaf of a position. */
export const tileOf = (position: number): number => Math.floor((position - 1) / NODE_CHILDREN);

/**
 * Whether a leaf tile is covered by a signed tree head: an inclusion proof from published tiles gives its
 * root.
 */
export async function isTileProven(directory: string, number: number, head: Head): Promise<boolean> {
  const first = number * NODE_CHILDREN;
  if (first >= head.size) return false;
  const read = hashesFromDirectory(directory, head.size);
  try {
    const [leaf] = await read([{ level: 0, number: first }]);
    const proof = await readSpans(inclusionSpans(first, head.size), read);
    return rootByInclusion(leaf as Buffer, first, head.size, proof)?.equals(head.root) ?? false;
  } catch (error) {
    if (error instanceof MissingHashesError) return false;
    throw error;
  }
}
