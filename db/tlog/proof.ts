import { type Head, joined, nodeHash, type Subtree, subtreesOf } from '#db/tlog/merkle.ts';

/**
 * Proofs over the Merkle tree, as RFC 6962 §2.1 makes them and RFC 9162 §2.1.3 and §2.1.4 check
 * them: that an event is in a tree, and that a tree only grew. The shapes are pure; hashes come from
 * whoever has them.
 */

/** The leaves from `start` up to, but without, `end`, which a proof stands for by one hash. */
export type Span = { start: number; end: number };

/** Gives the hashes of complete subtrees, in the order in which they are asked for. */
export type ReadHashes = (subtrees: readonly Subtree[]) => Promise<Buffer[]>;

/** No proof is longer, since no tree has more leaves than a number can count. */
export const PROOF_HASHES_MAX = 2 * 53;

/** The largest power of two below `count`, where a tree of so many leaves is split. */
const splitOf = (count: number): number => 2 ** Math.ceil(Math.log2(count) - 1);

/** What proves that a leaf is in a tree: from its sibling up to below the root. */
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

/**
 * What proves that a tree of `to` leaves begins with the one of `from` leaves; nothing for an empty or an
 * equal one.
 */
export function consistencySpans(from: number, to: number): Span[] {
  if (!(from >= 0 && from <= to))
    throw new RangeError(`a tree of ${to} leaves does not begin with one of ${from}`);
  if (from === 0) return [];
  const rest = (start: number, end: number, isWhole: boolean): Span[] => {
    if (from === end) return isWhole ? [] : [{ start, end }];
    const middle = start + splitOf(end - start);
    return from <= middle
      ? [...rest(start, middle, isWhole), { start: middle, end }]
      : [...rest(middle, end, false), { start, end: middle }];
  };
  return rest(0, to, true);
}

/** The hashes of spans, of which each one is that of the complete subtrees in it. */
export async function readSpans(spans: readonly Span[], read: ReadHashes): Promise<Buffer[]> {
  const parts = spans.map(({ start, end }) => subtreesOf(start, end));
  const hashes = await read(parts.flat());
  let used = 0;
  return parts.map((subtrees) => joined(hashes.slice(used, (used += subtrees.length))));
}

/** The root that a leaf and its proof come to; null where the proof has not the length of one. */
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

/** Whether a proof shows that the newer tree begins with the older one. */
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
  // Where the older tree is a subtree of the newer one its own root is where the path begins.
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
