import { hash } from 'node:crypto';

/**
 * The Merkle tree of RFC 6962 over the leaves of the log. The event at position p is leaf p - 1; leaf hashes
 * are computed in `db/log/chain.ts`. A tree head is the size and the root hash of a tree. Pure.
 */

export const HASH_BYTES = 32;

/** A complete subtree of the 2^level leaves from leaf `number × 2^level` on. */
export type Subtree = { level: number; number: number };

/** A tree head. */
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

/** The hash over adjacent subtrees, each smaller than the one to its left. */
export function joinedHash(hashes: readonly Buffer[]): Buffer {
  return hashes.length === 0 ? EMPTY_ROOT : hashes.reduceRight((right, left) => nodeHash(left, right));
}

/** The hash of the complete subtree over 2^n hashes. */
export function subtreeHash(hashes: readonly Buffer[]): Buffer {
  let level = [...hashes];
  while (level.length > 1)
    level = Array.from({ length: level.length / 2 }, (_, at) =>
      nodeHash(level[2 * at] as Buffer, level[2 * at + 1] as Buffer),
    );
  return level[0] as Buffer;
}

/**
 * The complete subtrees that the leaves from `start` to `end` (exclusive) consist of, from left to right. For
 * a full tree they are its peaks.
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
