import { createHash, type Hash } from 'node:crypto';
import type { Link } from '#db/archive/line.ts';
import { HASH_BYTES } from '#db/tlog/merkle.ts';

/**
 * A part of the log that a file holds, or did: what its manifest says of it can be counted from the events.
 */
export type PartSpan = { first: number; last: number };

/** What was counted of a part. Hashes are hexadecimal. */
export type PartFacts = {
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

/** Counts what manifests tell of parts, while the batches of a log go by in order. */
export class PartCounter {
  readonly #parts: readonly PartSpan[];
  #at = 0;
  #counting: Counting | null = null;
  #link: Link;
  /** The parts that were gone through, by their first position. */
  readonly counted = new Map<number, PartFacts>();

  /** @param parts in order, none across another. */
  constructor(parts: readonly PartSpan[], start: Link) {
    this.#parts = parts;
    this.#link = start;
  }

  /**
   * A batch whose leaves were all at hand, one behind the other. @param controls the positions of control
   * events in it.
   */
  take(from: number, leaves: Buffer, controls: ReadonlySet<number>, format: string, link: Link): void {
    for (
      let part = this.#parts[this.#at];
      part !== undefined && part.first <= link.position;
      part = this.#parts[this.#at]
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
        if (position < part.first || position > part.last) continue;
        counting.controls++;
        counting.digest.update(
          leaves.subarray((position - from) * HASH_BYTES, (position - from + 1) * HASH_BYTES),
        );
      }
      if (link.position <= part.last) counting.after = link;
      else counting.open = Buffer.from(leaves.subarray(0, Math.max(0, part.last + 1 - from) * HASH_BYTES));
      if (link.position < part.last) break;
      this.#end(part, counting);
    }
    this.#link = link;
  }

  #end(part: PartSpan, { batches, formats, before, after, controls, digest, open }: Counting): void {
    this.counted.set(part.first, {
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
