import { hash } from 'node:crypto';
import { EMPTY_ROOT, HASH_BYTES, type Subtree } from '#db/tlog/merkle.ts';

/** A complete subtree of 256^level leaves, as stored in `daybook.log_node`. */
export type Node = { level: number; number: number; hash: Buffer };

/** Each node covers 2^8 nodes of the level below. */
const NODE_BITS = 8;

const PAIR = Buffer.alloc(1 + 2 * HASH_BYTES, 1);

/**
 * A hash as a string with one character per byte: Node returns it in a third of the time of a buffer, and
 * garbage collection of millions of them is cheap.
 */
export type HashText = string;
export const hashText = (data: string | Uint8Array): HashText => hash('sha256', data, 'latin1');
export const textOf = (hashed: Buffer): HashText => hashed.toString('latin1');
const bufferOf = (hashed: HashText): Buffer => Buffer.from(hashed, 'latin1');

function pairHash(left: HashText, right: HashText): HashText {
  PAIR.write(left, 1, 'latin1');
  PAIR.write(right, 1 + HASH_BYTES, 'latin1');
  return hashText(PAIR);
}

/** The tree of a log while it is read: its current root, and the nodes that were completed. */
export class AuditTree {
  #size = 0;
  /** The rightmost complete subtree of each level, or null. */
  readonly #peaks: (HashText | null)[] = [];
  /** Completed nodes that were not consumed yet. */
  readonly completed: Node[] = [];

  get size(): number {
    return this.#size;
  }

  append(leaf: HashText): void {
    this.#append(0, leaf);
  }

  /**
   * Appends complete subtrees. @throws {RangeError} when the size is not a multiple of a subtree's.
   */
  appendAll(subtrees: readonly Subtree[], hashes: readonly Buffer[]): void {
    for (const [index, { level }] of subtrees.entries()) {
      if (this.#size % 2 ** level !== 0)
        throw new RangeError(`no subtree of level ${level} begins at leaf ${this.#size}`);
      this.#append(level, textOf(hashes[index] as Buffer));
    }
  }

  #append(level: number, hashed: HashText): void {
    this.#size += 2 ** level;
    let merged = hashed;
    let at = level;
    for (let left = this.#peaks[at]; left != null; left = this.#peaks[at]) {
      this.#peaks[at++] = null;
      merged = pairHash(left, merged);
      // Subtrees appended as such are not reported as completed.
      if (at % NODE_BITS === 0)
        this.completed.push({
          level: at / NODE_BITS,
          number: this.#size / 2 ** at - 1,
          hash: bufferOf(merged),
        });
    }
    while (this.#peaks.length <= at) this.#peaks.push(null);
    this.#peaks[at] = merged;
  }

  /** An independent copy. */
  copy(): AuditTree {
    const copied = new AuditTree();
    copied.#size = this.#size;
    copied.#peaks.push(...this.#peaks);
    return copied;
  }

  root(): Buffer {
    const peaks = this.#peaks.filter((peak) => peak !== null);
    return peaks.length === 0 ? EMPTY_ROOT : bufferOf(peaks.reduce((right, left) => pairHash(left, right)));
  }
}
