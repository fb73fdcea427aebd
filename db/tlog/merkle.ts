import { hash } from 'node:crypto';

/**
 * The Merkle tree of RFC 6962 over the leaves of the log. The event at position p is leaf p - 1, and
 * leaf hashes are those of `db/log/chain.ts`. A tree is known by its size and its root. Pure.
 */

export const HASH_BYTES = 32;

/** A complete subtree: that of the leaves from `number × 2^level` on, 2^level of them. */
export type Subtree = { level: number; number: number };

/** What a tree is known by. */
export type Head = { size: number; root: Buffer };

/** The root of a tree without leaves. */
export const EMPTY_ROOT: Buffer = hash('sha256', '', 'buffer');

const NODE = Buffer.alloc(1 + 2 * HASH_BYTES, 1);

/** The hash of a node over two subtrees. */
export function nodeHash(left: Buffer, right: Buffer): Buffer {
  left.copy(NODE, 1);
  right.copy(NODE, 1 + HASH_BYTES);
  return hash('sha256', NODE, 'buffer');
}

/** The hash over subtrees that stand side by side, each smaller than the one to its left. */
export function joined(hashes: readonly Buffer[]): Buffer {
  return hashes.length === 0 ? EMPTY_ROOT : hashes.reduceRight((right, left) => nodeHash(left, right));
}

/** The hash of the complete subtree over as many hashes as a power of two. */
export function completed(hashes: readonly Buffer[]): Buffer {
  let level = [...hashes];
  while (level.length > 1)
    level = Array.from({ length: level.length / 2 }, (_, at) =>
      nodeHash(level[2 * at] as Buffer, level[2 * at + 1] as Buffer),
    );
  return level[0] as Buffer;
}

/**
 * The complete subtrees that the leaves from `start` up to, but without, `end` consist of, from left
 * to right. Of a whole tree they are its peaks.
 */
export function subtreesOf(start: number, end: number): Subtree[] {
  const found: Subtree[] = [];
  for (let from = start; from < end;) {
    let level = 0;
    while (from % 2 ** (level + 1) === 0 && from + 2 ** (level + 1) <= end) level++;
    found.push({ level, number: from / 2 ** level });
    from += 2 ** level;
  }
  return found;
}

/** A tree that grows to the right. It holds its peaks alone: one hash for each binary digit of its size. */
export class GrowingTree {
  #size = 0;
  readonly #peaks: { level: number; hash: Buffer }[] = [];

  get size(): number {
    return this.#size;
  }

  append(leaf: Buffer): void {
    this.appendSubtree(0, leaf);
  }

  /**
   * Appends 2^level leaves at once, by the hash of their subtree. @throws {RangeError} where none of that
   * level begins.
   */
  appendSubtree(level: number, hashOfIt: Buffer): void {
    const count = 2 ** level;
    if (this.#size % count !== 0)
      throw new RangeError(`no subtree of ${count} leaves begins at leaf ${this.#size}`);
    this.#size += count;
    let peak = { level, hash: hashOfIt };
    for (let last = this.#peaks.at(-1); last?.level === peak.level; last = this.#peaks.at(-1)) {
      this.#peaks.pop();
      peak = { level: peak.level + 1, hash: nodeHash(last.hash, peak.hash) };
    }
    this.#peaks.push(peak);
  }

  root(): Buffer {
    return joined(this.#peaks.map((peak) => peak.hash));
  }
}
