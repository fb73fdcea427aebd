import { type Head, joinedHash, nodeHash, type Subtree, subtreesOf } from '#db/tlog/merkle.ts';

/**
 * Inclusion and consistency proofs over the Merkle tree, generated as in RFC 6962 §2.1 and verified as in
 * RFC 9162 §2.1.3 and §2.1.4. Pure: hashes are read through {@link ReadHashes}.
 */

/** The leaves from `start` to `end` (exclusive), which one hash of a proof covers. */
export type Span = { start: number; end: number };

/** Reads the hashes of complete subtrees, in the order of the request. */
export type ReadHashes = (subtrees: readonly Subtree[]) => Promise<Buffer[]>;

/** No proof is longer, since positions are safe integers. */
export const PROOF_HASHES_MAX = 2 * 53;

/** The largest power of two below `count`, where a tree of `count` leaves is split. */
export const splitOf = (count: number): number => 2 ** Math.ceil(Math.log2(count) - 1);

/** The spans of an inclusion proof, from the leaf's sibling up to below the root. */
export function inclusionSpans(index: number, size: number): Span[] {
  if (!(index >= 0 && index < size)) throw new RangeError(`a tree of ${size} leaves has no leaf ${index}`);
  const path = (at: number, start: number, end: number): Span[] => {
    if (end - start === 1) return [];
    const middle = start + splitOf(end - start);
    return at < middle
      ? [...path(at, start, middle), { start: middle, end }]
      : [...path(at, middle, end), { start, end: middle }];
  };
  return path(index, 0, size);
}

/** The spans of a consistency proof from size `from` to size `to`; empty for size 0 or equal sizes. */
export function consistencySpans(from: number, to: number): Span[] {
  if (!(from >= 0 && from <= to))
    throw new RangeError(`a tree of ${to} leaves does not begin with one of ${from}`);
  if (from === 0) return [];
  const rest = (start: number, end: number, isComplete: boolean): Span[] => {
    if (from === end) return isComplete ? [] : [{ start, end }];
    const middle = start + splitOf(end - start);
    return from <= middle
      ? [...rest(start, middle, isComplete), { start: middle, end }]
      : [...rest(middle, end, false), { start, end: middle }];
  };
  return rest(0, to, true);
}

/** Reads the hashes of spans. */
export async function readSpans(spans: readonly Span[], read: ReadHashes): Promise<Buffer[]> {
  const parts = spans.map(({ start, end }) => subtreesOf(start, end));
  const hashes = await read(parts.flat());
  let used = 0;
  return parts.map((subtrees) => joinedHash(hashes.slice(used, (used += subtrees.length))));
}

/** Computes the root from a leaf and its inclusion proof; null if the proof has the wrong length. */
export function rootByInclusion(
  leaf: Buffer,
  index: number,
  size: number,
  proof: readonly Buffer[],
): Buffer | null {
  if (!(index >= 0 && index < size)) return null;
  let at = index;
  let last = size - 1;
  let root = leaf;
  for (const sibling of proof) {
    if (last === 0) return null;
    if (at % 2 === 1 || at === last) {
      root = nodeHash(sibling, root);
      while (at % 2 === 0 && at !== 0) {
        at /= 2;
        last = Math.floor(last / 2);
      }
    } else root = nodeHash(root, sibling);
    at = Math.floor(at / 2);
    last = Math.floor(last / 2);
  }
  return last === 0 ? root : null;
}

/** Verifies a consistency proof. */
export function isConsistent(older: Head, newer: Head, proof: readonly Buffer[]): boolean {
  if (older.size > newer.size) return false;
  if (older.size === newer.size) return proof.length === 0 && older.root.equals(newer.root);
  if (older.size === 0) return proof.length === 0;
  let at = older.size - 1;
  let last = newer.size - 1;
  while (at % 2 === 1) {
    at = Math.floor(at / 2);
    last = Math.floor(last / 2);
  }
  // If the older tree is a complete subtree of the newer one, the path starts at its root.
  const [first, ...path] = at === 0 ? [older.root, ...proof] : proof;
  if (first === undefined) return false;
  let oldRoot = first;
  let newRoot = first;
  for (const sibling of path) {
    if (last === 0) return false;
    if (at % 2 === 1 || at === last) {
      oldRoot = nodeHash(sibling, oldRoot);
      newRoot = nodeHash(sibling, newRoot);
      while (at % 2 === 0 && at !== 0) {
        at /= 2;
        last = Math.floor(last / 2);
      }
    } else newRoot = nodeHash(newRoot, sibling);
    at = Math.floor(at / 2);
    last = Math.floor(last / 2);
  }
  return last === 0 && oldRoot.equals(older.root) && newRoot.equals(newer.root);
}
