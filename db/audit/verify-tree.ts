import { joined, nodeHash, type Subtree } from '#db/tlog/merkle.ts';

/** A complete subtree of 256^level leaves, as `daybook.log_node` keeps it. */
export type Node = { level: number; number: number; hash: Buffer };

/** A node of that table stands for so many of the level below it, as a power of two. */
const NODE_BITS = 8;

/** The tree of a log while it is read: its root at any moment, and the nodes that were completed on the way. */
export class AuditTree {
  #size = 0;
  /** The complete subtree of each level at the right end, where there is one. */
  readonly #peaks: (Buffer | null)[] = [];
  /** Nodes that were completed and that nobody took yet. */
  readonly completed: Node[] = [];

  get size(): number {
    return this.#size;
  }

  append(leaf: Buffer): void {
    this.appendSubtree(0, leaf);
  }

  /** Appends 2^level leaves at once. @throws {RangeError} where none of that level begins. */
  appendSubtree(level: number, hashOfIt: Buffer): void {
    if (this.#size % 2 ** level !== 0) throw new RangeError(`no subtree of level ${level} begins at leaf ${this.#size}`);
    this.#size += 2 ** level;
    let hash = hashOfIt;
    let at = level;
    for (let left = this.#peaks[at]; left != null; left = this.#peaks[at]) {
      this.#peaks[at++] = null;
      hash = nodeHash(left, hash);
      // What was appended whole was somebody else's to compare.
      if (at % NODE_BITS === 0) this.completed.push({ level: at / NODE_BITS, number: this.#size / 2 ** at - 1, hash });
    }
    while (this.#peaks.length <= at) this.#peaks.push(null);
    this.#peaks[at] = hash;
  }

  /** Appends what proves that a tree goes on behind what was read. */
  appendAll(subtrees: readonly Subtree[], hashes: readonly Buffer[]): void {
    for (const [index, { level }] of subtrees.entries()) this.appendSubtree(level, hashes[index] as Buffer);
  }

  root(): Buffer {
    return joined(this.#peaks.filter((peak) => peak !== null).toReversed());
  }
}
