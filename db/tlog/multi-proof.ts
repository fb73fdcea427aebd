import { type Head, nodeHash } from '#db/tlog/merkle.ts';
import { type ReadHashes, readSpans, type Span, splitOf } from '#db/tlog/proof.ts';

/**
 * One inclusion proof for many leaves: the hashes of the largest subtrees without any of them, from left to
 * right. Leaves that stand together share almost all of their hashes. The tree is that of RFC 6962. Pure.
 */

/** No tree has more leaves, since positions are safe integers. */
const DEPTH_MAX = 53;

/**
 * The spans of a proof.
 * @param indexes of the leaves, in increasing order, each below `size`.
 */
export function multiProofSpans(indexes: readonly number[], size: number): Span[] {
  const spans: Span[] = [];
  /** The leaves from `first` to `last` (exclusive) of `indexes` are below this node. */
  const visit = (start: number, end: number, first: number, last: number): void => {
    if (first === last) spans.push({ start, end });
    else if (end - start > 1) {
      const middle = start + splitOf(end - start);
      const split = firstFrom(indexes, middle, first, last);
      visit(start, middle, first, split);
      visit(middle, end, split, last);
    }
  };
  if (size > 0) visit(0, size, 0, indexes.length);
  return spans;
}

/** The first of the sorted numbers from `first` to `last` (exclusive) that is not below `bound`. */
function firstFrom(numbers: readonly number[], bound: number, first: number, last: number): number {
  let [from, to] = [first, last];
  while (from < to) {
    const at = Math.floor((from + to) / 2);
    if ((numbers[at] as number) < bound) from = at + 1;
    else to = at;
  }
  return from;
}

/** How many spans are read at once: the tiles that their hashes are in stay in memory. */
const SPANS_AT_ONCE = 512;

/**
 * Reads the hashes of a proof.
 * @param open a reader for each part, so that the tiles of earlier parts are dropped.
 */
export async function readMultiProof(
  indexes: readonly number[],
  size: number,
  open: () => ReadHashes,
): Promise<Buffer[]> {
  const spans = multiProofSpans(indexes, size);
  const hashes: Buffer[] = [];
  for (let at = 0; at < spans.length; at += SPANS_AT_ONCE)
    hashes.push(...(await readSpans(spans.slice(at, at + SPANS_AT_ONCE), open())));
  return hashes;
}

/**
 * Whether the leaves are in the tree at their indexes.
 * @param leaves in increasing order of their indexes.
 */
export function isIncluded(
  leaves: readonly { index: number; hash: Buffer }[],
  { size, root }: Head,
  proof: readonly Buffer[],
): boolean {
  if (leaves.some(({ index }, at) => index >= size || index <= (leaves[at - 1]?.index ?? -1))) return false;
  if (leaves.length === 0 || size > 2 ** DEPTH_MAX) return false;
  const indexes = leaves.map(({ index }) => index);
  let used = 0;
  const hashOf = (start: number, end: number, first: number, last: number): Buffer | null => {
    if (first === last) return proof[used++] ?? null;
    if (end - start === 1) return (leaves[first] as { hash: Buffer }).hash;
    const middle = start + splitOf(end - start);
    const split = firstFrom(indexes, middle, first, last);
    const left = hashOf(start, middle, first, split);
    const right = left && hashOf(middle, end, split, last);
    return left && right && nodeHash(left, right);
  };
  return hashOf(0, size, 0, leaves.length)?.equals(root) === true && used === proof.length;
}
