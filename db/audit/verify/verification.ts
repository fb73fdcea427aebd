import { setImmediate } from 'node:timers/promises';
import type { TrustedKeys } from '#db/audit/verify/evidence.ts';
import { isTileProven, type PublishedTiles, tileOf } from '#db/audit/verify/published-leaves.ts';
import type { CheckpointVerifier, ParsedCheckpoint } from '#db/audit/verify/checkpoints.ts';
import { findRootCauses } from '#db/audit/verify/root-causes.ts';
import type { StoredBatch } from '#db/audit/verify/batches.ts';
import type { HashText } from '#db/audit/verify/tree.ts';
import type { ManifestFactsCounter } from '#db/audit/verify/manifest-facts.ts';
import { type Finding, type Report } from '#db/audit/verify/report.ts';
import { FINDINGS_MAX } from '#db/audit/bounds.ts';
import type { Streams } from '#db/audit/verify/streams.ts';
import {
  type ControlLine,
  type CopiedLines,
  type Start,
  LogVerifier,
} from '#db/audit/verify/log-verifier.ts';
import type { NodeId, NodeRange } from '#db/audit/verify/nodes.ts';
import type { Head } from '#db/tlog/merkle.ts';
import { NODE_CHILDREN } from '#db/tlog/hashes.ts';
import { EVENTS_PER_TURN } from '#db/audit/bounds.ts';

/** The inputs of a verification, for any source of events. */
export type VerificationInputs = {
  logId: string;
  start: Start;
  tiles: PublishedTiles;
  published: string | undefined;
  keys: TrustedKeys;
  checkpoints: CheckpointVerifier;
  streams: Streams;
  facts: ManifestFactsCounter;
  /** The last positions of partitions or files, ascending, which no batch crosses. */
  borders: readonly number[];
};

/**
 * One verification: it takes the pages of a log in order, compares checkpoints as the tree reaches their
 * sizes, and derives the report at the end.
 */
export class Verification {
  readonly #inputs: VerificationInputs;
  readonly verifier: LogVerifier;
  /** Checkpoints whose size the tree has not reached, smallest first. */
  #expected: ParsedCheckpoint[] = [];
  readonly #first: number;
  /** Findings in the tables beside the log. */
  readonly tableFindings: Finding[] = [];
  readonly wrongNodes: NodeId[] = [];
  readonly missingNodes: NodeRange[] = [];
  /** The position of the event that records the first signing key. */
  signedFrom: number | null = null;

  constructor(inputs: VerificationInputs) {
    this.#inputs = inputs;
    this.#first = inputs.start.first;
    this.verifier = new LogVerifier(inputs.start, inputs.tiles, inputs.facts, inputs.borders);
  }

  /** Adds checkpoints to compare when the tree reaches their sizes. */
  expect(checkpoints: readonly (ParsedCheckpoint | null)[]): void {
    const added = checkpoints.filter((each) => each !== null);
    if (added.length === 0) return;
    this.#expected = [...this.#expected, ...added].toSorted(
      (one, other) => one.checkpoint.size - other.checkpoint.size,
    );
    this.verifier.rootSizes = [...new Set(this.#expected.map(({ checkpoint }) => checkpoint.size))];
  }

  /** @returns the events that a table has once more. */
  async addPage(batches: readonly StoredBatch[]): Promise<CopiedLines> {
    const { verifier } = this;
    const { tiles } = this.#inputs;
    let yieldedAt = verifier.events;
    for (const [index, batch] of batches.entries()) {
      if (verifier.events - yieldedAt >= EVENTS_PER_TURN) {
        await setImmediate();
        yieldedAt = verifier.events;
      }
      const { last, log } = batch;
      // Both where it should begin and where it says that it does.
      for (const from of [verifier.next, last + 1 - Number(log?.eventCount ?? 0)]) {
        if (log !== null && !tiles.isLoaded(from, last)) await tiles.load(from, last);
      }
      verifier.addBatch(batch, batches[index + 1]);
    }
    const copied = verifier.takeCopied();
    for (const control of copied.controls) this.addControlEvent(control, 'log');
    this.#compareReached(verifier.verifiedTo);
    return copied;
  }

  /** Ends the input. @param head the last position of the log. */
  finish(head: number): void {
    this.verifier.finish(head);
    this.#compareReached(head);
  }

  /** Adds a control event, also one that is read apart from the log. */
  addControlEvent(control: ControlLine, table: string): void {
    this.#inputs.streams.addEvent(control, table);
    const { event, position } = control;
    if (event?.type === 'log.signer_changed') {
      this.signedFrom ??= position;
      this.#inputs.keys.addNamedKey(event.verifier_key, position);
    }
    if (event?.type === 'log.epoch_started') this.#inputs.checkpoints.abandonEpoch(event.epoch - 1, position);
  }

  /** Whether a leaf differs from the published one. */
  async differsFromPublished(position: number, leaf: HashText): Promise<boolean> {
    await this.#inputs.tiles.load(position, position);
    return this.#inputs.tiles.compare(position, [leaf]).different.length > 0;
  }

  /** Compares the checkpoints whose sizes the tree has reached. */
  #compareReached(upTo: number): void {
    while (this.#expected[0] !== undefined && this.#expected[0].checkpoint.size <= upTo) {
      const reached = this.#expected.shift() as ParsedCheckpoint;
      this.#inputs.checkpoints.compare(reached, this.verifier.roots.get(reached.checkpoint.size) ?? null);
    }
    for (const size of this.verifier.roots.keys())
      if (this.#expected[0] === undefined || size < this.#expected[0].checkpoint.size)
        this.verifier.roots.delete(size);
  }

  /** Removes and returns the checkpoints that are larger than the log. */
  takeRemaining(): ParsedCheckpoint[] {
    return this.#expected.splice(0);
  }

  /** Whether there are so many findings that the verification stops. */
  get isFull(): boolean {
    return this.verifier.findingCount + this.#inputs.streams.findings.length >= FINDINGS_MAX;
  }

  /** Derives the report. @param head a signed tree head to verify published tiles with. */
  async report(head: Head | null, direct: readonly Finding[]): Promise<Report> {
    const { verifier } = this;
    const { checkpoints, streams, keys, logId, published } = this.#inputs;
    const tiles = new Map<number, boolean>();
    const isProven = async (position: number): Promise<boolean> => {
      if (published === undefined || head === null || position > head.size) return false;
      const tile = tileOf(position);
      if (!tiles.has(tile)) tiles.set(tile, await isTileProven(published, tile, head));
      return tiles.get(tile) === true;
    };
    const different: number[] = [];
    for (const position of verifier.different.slice(0, FINDINGS_MAX))
      if (await isProven(position)) different.push(position);
    for (const broken of verifier.broken.slice(0, FINDINGS_MAX)) {
      for (let at = broken.from; at <= broken.to && broken.leaves !== 'unknown'; at += NODE_CHILDREN)
        if (!(await isProven(at)) || !(await isProven(broken.to))) broken.leaves = 'unknown';
    }
    const invalidTiles = [...tiles].flatMap(([tile, isValid]): Finding[] =>
      isValid
        ? []
        : [
            {
              position: tile * NODE_CHILDREN + 1,
              table: 'published',
              problem: `the tile from position ${tile * NODE_CHILDREN + 1} on does not match the checkpoint`,
            },
          ],
    );
    const findings = findRootCauses({
      direct: [...verifier.findings, ...streams.findings, ...direct],
      different,
      broken: verifier.broken,
      contradiction: checkpoints.contradiction,
      nodes: this.wrongNodes,
      missingNodes: this.missingNodes,
      covered: checkpoints.covered,
      tableFindings: [...checkpoints.findings, ...this.tableFindings, ...invalidTiles],
    });
    return {
      log_id: logId,
      first: this.#first,
      head: verifier.next - 1,
      events: verifier.events,
      batches: verifier.batches,
      checkpoints: checkpoints.agreed,
      root: verifier.tree?.root().toString('base64') ?? null,
      covered: checkpoints.covered,
      published_at: checkpoints.publishedAt,
      trust: keys.trust,
      notes: checkpoints.notes,
      findings,
    };
  }
}
