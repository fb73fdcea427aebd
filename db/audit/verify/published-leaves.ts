import type { PublishedLeaves } from '#db/audit/verify/log-verifier.ts';
import type { HashText } from '#db/audit/verify/tree.ts';
import { MissingHashesError, NODE_CHILDREN } from '#db/tlog/hashes.ts';
import { HASH_BYTES, type Head } from '#db/tlog/merkle.ts';
import { inclusionSpans, readSpans, rootByInclusion } from '#db/tlog/proof.ts';
import { readLeafTile, TILE_BYTES } from '#db/tlog/publish-directory.ts';
import { hashesFromDirectory } from '#db/tlog/tiles.ts';
import { CACHED_TILES_MAX, TILES_PER_READ } from '#db/audit/bounds.ts';

/** The published leaf hashes, loaded tile by tile while the log is read. */
export class PublishedTiles implements PublishedLeaves {
  readonly #directory: string | null;
  readonly #tiles = new Map<number, Buffer | null>();

  /** @param directory that the log is published in; null if not available. */
  constructor(directory: string | null) {
    this.#directory = directory;
  }

  /** Whether the tiles of a range have been loaded, as far as they exist. */
  isLoaded(from: number, to: number): boolean {
    if (this.#directory === null) return true;
    for (let number = tileOf(from); number <= tileOf(to); number++)
      if (!this.#tiles.has(number)) return false;
    return true;
  }

  /**
   * Loads the tiles of a range, at most CACHED_TILES_MAX of them, and some behind it: to wait for one at a
   * time would take a quarter of a verification. Ranges come in ascending order.
   */
  async load(from: number, to: number): Promise<void> {
    if (this.#directory === null || !Number.isSafeInteger(to)) return;
    const end = Math.min(tileOf(to), tileOf(from) + CACHED_TILES_MAX - 1);
    for (let first = Math.max(0, tileOf(from)); first <= end; first += TILES_PER_READ)
      await this.#load(this.#directory, first);
    for (const number of this.#tiles.keys()) {
      if (this.#tiles.size <= CACHED_TILES_MAX) break;
      this.#tiles.delete(number);
    }
  }

  async #load(directory: string, first: number): Promise<void> {
    const numbers = Array.from({ length: TILES_PER_READ }, (_, at) => first + at);
    const wanted = numbers.filter((number) => !this.#tiles.has(number));
    const tiles = await Promise.all(wanted.map((number) => readLeafTile(directory, number)));
    for (const [at, number] of wanted.entries()) this.#tiles.set(number, tiles[at] ?? null);
  }

  compare(from: number, leaves: readonly HashText[]): { different: number[]; isComplete: boolean } {
    const different: number[] = [];
    if (this.#directory === null) return { different, isComplete: false };
    let isComplete = true;
    for (let at = 0; at < leaves.length;) {
      const tile = this.#tiles.get(tileOf(from + at));
      const begin = ((from + at - 1) % NODE_CHILDREN) * HASH_BYTES;
      const end = Math.min(leaves.length, at + (TILE_BYTES - begin) / HASH_BYTES);
      const known = Math.max(0, Math.min(end - at, ((tile?.length ?? 0) - begin) / HASH_BYTES));
      isComplete &&= known === end - at;
      for (let each = 0; each < known; each++)
        LEAVES.write(leaves[at + each] as HashText, each * HASH_BYTES, 'latin1');
      if (tile != null && known > 0 && isDifferent(tile, begin, 0, known))
        for (let each = 0; each < known; each++)
          if (isDifferent(tile, begin, each, each + 1)) different.push(from + at + each);
      at = end;
    }
    return { different, isComplete };
  }
}

/** The leaves that are compared with a tile. */
const LEAVES = Buffer.alloc(TILE_BYTES);

/** Whether leaves of {@link LEAVES} differ from those of a tile from an offset on. */
const isDifferent = (tile: Buffer, begin: number, from: number, to: number): boolean =>
  tile.compare(
    LEAVES,
    from * HASH_BYTES,
    to * HASH_BYTES,
    begin + from * HASH_BYTES,
    begin + to * HASH_BYTES,
  ) !== 0;

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
