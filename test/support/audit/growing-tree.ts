import { joinedHash, nodeHash } from '#db/tlog/merkle.ts';

/** An append-only tree that stores only its peaks: at most one hash per binary digit of its size. */
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
   * Appends 2^level leaves by the hash of their subtree.
   * @throws {RangeError} when the current size is not a multiple of 2^level.
   */
  appendSubtree(level: number, subtree: Buffer): void {
    const count = 2 ** level;
    if (this.#size % count !== 0)
      throw new RangeError(`no subtree of ${count} leaves begins at leaf ${this.#size}`);
    this.#size += count;
    let peak = { level, hash: subtree };
    for (let last = this.#peaks.at(-1); last?.level === peak.level; last = this.#peaks.at(-1)) {
      this.#peaks.pop();
      peak = { level: peak.level + 1, hash: nodeHash(last.hash, peak.hash) };
    }
    this.#peaks.push(peak);
  }

  root(): Buffer {
    return joinedHash(this.#peaks.map((peak) => peak.hash));
  }
}
