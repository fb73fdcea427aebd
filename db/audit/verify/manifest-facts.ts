import { createHash, type Hash } from 'node:crypto';
import type { HashText } from '#db/audit/verify/tree.ts';

/** The range of a file or partition, for which the facts of its manifest are recomputed. */
export type PositionRange = { first: number; last: number };

/** The recomputed facts of a range. Hashes are hexadecimal. */
export type ManifestFacts = {
  batch_count: number;
  formats: string[];
  chain_before: string;
  chain_after: string;
  control_count: number;
  control_sha256: string;
};

/** A batch with the leaf hashes of its control events. */
export type BatchFacts = { format: string; chain: Buffer; controls: readonly HashText[] };

type Counting = {
  /** Whether a batch of the range, or the one before, is missing or damaged, which is reported itself. */
  isDamaged: boolean;
  batches: number;
  formats: Set<string>;
  before: Buffer;
  controls: number;
  digest: Hash;
};

/** Recomputes the facts of manifests while the batches of a log are read in order. */
export class ManifestFactsCounter {
  readonly #ranges: readonly PositionRange[];
  #at = 0;
  #counting: Counting | null = null;
  /** That of the batch before; null if unknown. */
  #chain: Buffer | null;
  /** The facts of completed ranges, by first position. */
  readonly counted = new Map<number, ManifestFacts>();

  /** @param ranges ascending, without overlap. @param chain that of the batch before the first one. */
  constructor(ranges: readonly PositionRange[], chain: Buffer | null) {
    this.#ranges = ranges;
    this.#chain = chain;
  }

  /** Adds the batch that ends at a position; null if it is missing or damaged. */
  addBatch(batch: BatchFacts | null, last: number): void {
    for (
      let range = this.#ranges[this.#at];
      range !== undefined && range.first <= last;
      range = this.#ranges[this.#at]
    ) {
      const counting = (this.#counting ??= this.#begin());
      if (batch === null || last > range.last) counting.isDamaged = true;
      else {
        counting.batches++;
        counting.formats.add(batch.format);
        counting.controls += batch.controls.length;
        for (const leaf of batch.controls) counting.digest.update(leaf, 'latin1');
      }
      if (last < range.last) break;
      if (batch !== null) this.#end(range, counting, batch.chain);
      this.#counting = null;
      this.#at++;
    }
    this.#chain = batch?.chain ?? null;
  }

  #begin(): Counting {
    return {
      isDamaged: this.#chain === null,
      batches: 0,
      formats: new Set(),
      before: this.#chain ?? Buffer.alloc(0),
      controls: 0,
      digest: createHash('sha256'),
    };
  }

  #end(range: PositionRange, counting: Counting, after: Buffer): void {
    const { isDamaged, batches, formats, before, controls, digest } = counting;
    if (isDamaged) return;
    this.counted.set(range.first, {
      batch_count: batches,
      formats: [...formats].toSorted(),
      chain_before: before.toString('hex'),
      chain_after: after.toString('hex'),
      control_count: controls,
      control_sha256: digest.digest('hex'),
    });
  }
}
