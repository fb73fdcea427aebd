import { createHash, type Hash } from 'node:crypto';
import type { Link } from '#db/archive/line.ts';
import { HASH_BYTES } from '#db/tlog/merkle.ts';

/** The range of a file or partition, for which the facts of its manifest are recomputed. */
export type PositionRange = { first: number; last: number };

/** The recomputed facts of a range. Hashes are hexadecimal. */
export type ManifestFacts = {
  batch_count: number;
  formats: string[];
  chain_before: Link;
  chain_after: Link;
  control_count: number;
  control_sha256: string;
  openLeaves: Buffer;
};

type Counting = {
  batches: number;
  formats: Set<string>;
  before: Link;
  after: Link;
  controls: number;
  digest: Hash;
  open: Buffer;
};

/** Recomputes the facts of manifests while the batches of a log are read in order. */
export class ManifestFactsCounter {
  readonly #ranges: readonly PositionRange[];
  #at = 0;
  #counting: Counting | null = null;
  #link: Link;
  /** The facts of completed ranges, by first position. */
  readonly counted = new Map<number, ManifestFacts>();

  /** @param ranges ascending, without overlap. */
  constructor(ranges: readonly PositionRange[], start: Link) {
    this.#ranges = ranges;
    this.#link = start;
  }

  /**
   * Adds a batch with its concatenated leaf hashes. @param controls the positions of its control events.
   */
  addBatch(from: number, leaves: Buffer, controls: ReadonlySet<number>, format: string, link: Link): void {
    for (
      let range = this.#ranges[this.#at];
      range !== undefined && range.first <= link.position;
      range = this.#ranges[this.#at]
    ) {
      const counting = (this.#counting ??= {
        batches: 0,
        formats: new Set(),
        before: this.#link,
        after: this.#link,
        controls: 0,
        digest: createHash('sha256'),
        open: Buffer.alloc(0),
      });
      counting.batches++;
      counting.formats.add(format);
      for (const position of controls) {
        if (position < range.first || position > range.last) continue;
        counting.controls++;
        counting.digest.update(
          leaves.subarray((position - from) * HASH_BYTES, (position - from + 1) * HASH_BYTES),
        );
      }
      if (link.position <= range.last) counting.after = link;
      else counting.open = Buffer.from(leaves.subarray(0, Math.max(0, range.last + 1 - from) * HASH_BYTES));
      if (link.position < range.last) break;
      this.#end(range, counting);
    }
    this.#link = link;
  }

  #end(range: PositionRange, { batches, formats, before, after, controls, digest, open }: Counting): void {
    this.counted.set(range.first, {
      batch_count: batches,
      formats: [...formats].toSorted(),
      chain_before: before,
      chain_after: after,
      control_count: controls,
      control_sha256: digest.digest('hex'),
      openLeaves: open,
    });
    this.#counting = null;
    this.#at++;
  }
}
