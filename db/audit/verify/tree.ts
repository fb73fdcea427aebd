import { hash } from 'node:crypto';
import { EMPTY_ROOT, HASH_BYTES, type Subtree } from '#db/tlog/merkle.ts';

/** A complete subtree of 256^level leaves, as `daybook.log_node` keeps it. */
export type Node = { level: number; number: number; hash: Buffer };

/** A node of that table stands for so many of the level below it, as a power of two. */
const NODE_BITS = 8;

const PAIR = Buffer.alloc(1 + 2 * HASH_BYTES, 1);

/**
 * A hash as a text of one character for each byte: Node gives it out in a third of the time that a
 * buffer takes, and millions of them leave nothing behind but small strings.
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

/**
 * The tree of a log while it is read: its root at any moment, and the nodes that were completed on the way.
 */
export class AuditTree {
  #size = 0;
  /** The complete subtree of each level at the right end, where there is one. */
  readonly #peaks: (HashText | null)[] = [];
  /** Nodes that were completed and that nobody took yet. */
  readonly completed: Node[] = [];

  get size(): number {
    return this.#size;
  }

  append(leaf: HashText): void {
    this.#append(0, leaf);
  }

  /**
   * Appends subtrees that are known by their hashes. @throws {RangeError} where none of such a level begins.
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
    let whole = hashed;
    let at = level;
    for (let left = this.#peaks[at]; left != null; left = this.#peaks[at]) {
      this.#peaks[at++] = null;
      whole = pairHash(left, whole);
      // What was appended whole was somebody else's to compare.
      if (at % NODE_BITS === 0)
        this.completed.push({
          level: at / NODE_BITS,
          number: this.#size / 2 ** at - 1,
          hash: bufferOf(whole),
        });
    }
    while (this.#peaks.length <= at) this.#peaks.push(null);
    this.#peaks[at] = whole;
  }

  /** A tree of its own that goes on from here. */
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
