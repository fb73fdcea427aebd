import { type EventRow, textOf } from '#db/audit/source/event-row.ts';
import { AT, checkEvent } from '#db/audit/verify/event.ts';
import { leavesOf, type Pending } from '#db/audit/verify/leaves.ts';
import type { ManifestFactsCounter } from '#db/audit/verify/manifest-facts.ts';
import { type Finding, OF_ANOTHER_BATCH, spanOf } from '#db/audit/verify/report.ts';
import type { AuditTree, HashText } from '#db/audit/verify/tree.ts';
import { type BatchRow, LEAF_FORMAT, linkBatch } from '#db/log/chain.ts';
import type { ControlEvent } from '#db/events/events.ts';
import { HASH_BYTES } from '#db/tlog/merkle.ts';
import { BATCH_EVENTS_MAX } from '#db/archive/bounds.ts';

/** The state of the log before the first event that is read. */
export type Start = {
  /** The position of the first event. */
  first: number;
  /** The chain hash of the last batch before it; null if unknown. */
  chain: Buffer | null;
  /** Leaf hashes of the rows of the first batch that precede the first event. */
  leavesBefore: readonly Buffer[];
  /** The tree of all events before; null if unknown. */
  tree: AuditTree | null;
};

/** The published leaf hashes. */
export type PublishedLeaves = {
  /**
   * Compares concatenated leaf hashes from a position on.
   * @returns the positions that differ, and whether all of them were published.
   */
  compare(from: number, leaves: Buffer): { different: number[]; isComplete: boolean };
};

/** A batch whose chain hash does not match its rows. */
export type BrokenBatch = {
  from: number;
  to: number;
  /** How its leaves compare with the published ones. */
  leaves: 'same' | 'different' | 'unknown';
  /** The next batch continues the recomputed hash, so only the stored hash was changed. */
  isHashOnly: boolean;
};

/** A control event at its position. `event` is null if it is invalid. */
export type ControlRow = {
  position: number;
  text: string;
  stream: string;
  version: number;
  event: ControlEvent | null;
};

type Link = { recomputed: readonly Buffer[]; at: number; matches: boolean };

/**
 * Verifies the rows and batches of a log in order: events, hash chain, published leaves and the tree. It
 * records every problem and never stops by itself. Pure: its input comes from a database or from files.
 */
export class LogVerifier {
  readonly #published: PublishedLeaves;
  readonly #facts: ManifestFactsCounter;
  /**
   * The chain hashes that the next batch can continue: the stored one, and, if that was wrong, the
   * recomputed.
   */
  #links: Buffer[];
  #before: BatchRow | null = null;
  #lastPosition: number;
  #pending: Pending[] = [];
  #suspect: BrokenBatch | null = null;
  tree: AuditTree | null;

  /** The expected position of the next event. */
  next: number;
  events = 0;
  batches = 0;
  readonly findings: Finding[] = [];
  /** Positions whose leaf differs from the published one. */
  readonly different: number[] = [];
  readonly broken: BrokenBatch[] = [];
  /** Control events since the last {@link takeControls}. */
  #controls: ControlRow[] = [];
  /** The sizes, ascending, whose roots are recorded while the tree grows. */
  rootSizes: number[] = [];
  readonly roots = new Map<number, Buffer>();

  constructor(start: Start, published: PublishedLeaves, facts: ManifestFactsCounter) {
    this.#published = published;
    this.#facts = facts;
    this.#links = start.chain === null ? [] : [start.chain];
    this.next = start.first;
    this.#lastPosition = start.first - 1 - start.leavesBefore.length;
    this.#pending = [...start.leavesBefore];
    this.tree = start.tree;
    this.#recordRoot();
  }

  /** The last position whose batch was added. */
  get verifiedTo(): number {
    return this.#lastPosition;
  }

  /** The number of problems so far. */
  get findingCount(): number {
    return this.findings.length + this.different.length + this.broken.length;
  }

  takeControls(): ControlRow[] {
    return this.#controls.splice(0);
  }

  addRow(row: EventRow): void {
    const { position } = row;
    if (!(position >= this.next)) {
      const why = position === this.next - 1 ? 'is there twice' : 'is out of order';
      this.#find(
        Number.isNaN(position) ? this.next : position,
        'log',
        Number.isNaN(position) ? 'a row has no position' : why,
      );
      return;
    }
    this.#skipTo(position);
    if (this.#pending.length >= BATCH_EVENTS_MAX) this.#endPending(true);
    this.#pending.push(row);
    this.next++;
    this.events++;
    const { fields } = row;
    if (fields === null) return;
    if (fields[AT.shard] !== '0') this.#find(position, 'log', `is of shard ${fields[AT.shard] ?? 'null'}`);
    if (fields[AT.at] === null) this.#find(position, 'log', 'has no time');
    const checked = checkEvent(fields);
    if (checked.problem !== null) this.#find(position, 'log', checked.problem);
    else if (checked.control === null) return;
    const stream = fields[AT.stream];
    if (stream == null) return;
    const event = checked.problem === null ? checked.control : null;
    this.#controls.push({ position, text: textOf(row), stream, version: Number(fields[AT.version]), event });
  }

  /** Adds leaf hashes of rows after the last one, which the last batch continues with. */
  addLeaves(leaves: readonly Buffer[]): void {
    this.#pending.push(...leaves);
  }

  /** Skips unreadable or missing rows up to a position, which were reported already. */
  skip(to: number): void {
    while (this.next <= to) {
      this.#pending.push(null);
      this.next++;
    }
    this.tree = null;
  }

  addBatch(batch: BatchRow): void {
    this.batches++;
    const last = Number(batch.lastPosition);
    const from = this.#lastPosition + 1;
    const count = Number(batch.eventCount);
    this.#checkBatch(batch, from);
    if (!(last >= from)) {
      this.#find(from, 'log_batch', `the batch that ends at position ${batch.lastPosition} is a duplicate`);
      return;
    }
    if (last >= this.next && this.#lastPosition + this.#pending.length < last) this.#skipTo(last + 1);
    const own = this.#pending.splice(0, last - this.#lastPosition);
    const isComplete = count === own.length;
    if (!isComplete) {
      const missing = own.length - count;
      if (missing > 0)
        this.#find(
          from,
          'log_batch',
          `no batch has ${spanOf(from, from + missing - 1)}, or the event count of the batch that ends ` +
            `at ${last} is wrong`,
        );
      else
        this.#find(
          from,
          'log_batch',
          `the row of the batch that ends at position ${last} counts ${count} events instead of ` +
            `${own.length}`,
        );
    }
    this.#lastPosition = last;
    this.#before = batch;
    this.#verifyBatch(batch, own, from, isComplete);
  }

  /** Ends the input. @param end the last position that should be there. */
  finish(end: number): void {
    // Events missing at the end are missing with the row of their batch.
    const isTruncated = this.next <= end;
    if (isTruncated) this.#skipTo(end + 1);
    this.#endPending(!isTruncated);
  }

  #checkBatch(batch: BatchRow, from: number): void {
    const problem = (text: string): void =>
      this.#find(from, 'log_batch', `the batch that ends at position ${batch.lastPosition} ${text}`);
    if (batch.shard !== '0') problem(`is of shard ${batch.shard}`);
    if (batch.at === '') problem('has no time');
    else if (this.#before && Number(batch.at) < Number(this.#before.at))
      problem('is earlier than the one before it');
    if (batch.format !== LEAF_FORMAT) problem(`states the unknown leaf format ${batch.format}`);
  }

  #verifyBatch(stated: BatchRow, own: readonly Pending[], from: number, isComplete: boolean): void {
    let batch = stated;
    const leaves = leavesOf(own);
    let link = isComplete && leaves.isKnown ? this.#linkOf(batch, leaves.bytes) : null;
    if (link !== null && !link.matches && stated.format !== LEAF_FORMAT) {
      // If only the format was changed, which is reported already, the chain hash matches the true one.
      const original = { ...stated, format: LEAF_FORMAT };
      const originalLink = this.#linkOf(original, leaves.bytes);
      if (originalLink.matches) [batch, link] = [original, originalLink];
    }
    const controls = new Set<number>();
    const unlike: number[] = [];
    for (let index = 0; index < own.length; index++) {
      const row = own[index] as Pending;
      if (row === null || Buffer.isBuffer(row)) continue;
      if (row.fields !== null && row.fields[AT.stream] != null) controls.add(row.position);
      if (row.at !== batch.at || row.instance !== batch.instance) unlike.push(row.position);
      const leaf = leaves.texts[index];
      if (leaf != null) this.#appendLeaf(leaf);
    }
    // If some rows differ from their batch those rows were changed; if all do, the batch was.
    if (isComplete && unlike.length < own.length)
      for (const position of unlike) this.#find(position, 'log', OF_ANOTHER_BATCH);
    if (isComplete && unlike.length > 0 && unlike.length === own.length)
      this.#find(
        from,
        'log_batch',
        `the batch that ends at position ${batch.lastPosition} has another time or instance than its rows`,
      );
    const first = own.findIndex((row) => !Buffer.isBuffer(row));
    const leavesAre = leaves.isKnown
      ? this.#compare(from + Math.max(0, first), leaves.bytes.subarray(Math.max(0, first) * HASH_BYTES))
      : 'unknown';
    if (link !== null)
      this.#recordLink(batch, link, {
        from,
        to: from + own.length - 1,
        leaves: leavesAre,
        isHashOnly: false,
      });
    else {
      // The link before is unknown, so the next batch is checked against this one's stored hash.
      this.#links = [batch.chain];
      this.#suspect = null;
    }
    if (leaves.isKnown)
      this.#facts.addBatch(from, leaves.bytes, controls, batch.format, {
        position: Number(batch.lastPosition),
        chain: batch.chain.toString('hex'),
      });
  }

  #compare(from: number, leaves: Buffer): BrokenBatch['leaves'] {
    const { different, isComplete } = this.#published.compare(from, leaves);
    this.different.push(...different);
    if (different.length > 0) return 'different';
    return isComplete ? 'same' : 'unknown';
  }

  /**
   * Recomputes a batch's chain hash after each hash that it can continue, and finds the one that is stored.
   */
  #linkOf(batch: BatchRow, leaves: Buffer): Link {
    // The chain hash of concatenated leaves equals that of single ones.
    const recomputed = this.#links.map((before) => linkBatch(before, [leaves], batch));
    const at = recomputed.findIndex((value) => value.equals(batch.chain));
    return { recomputed, at, matches: at >= 0 || recomputed.length === 0 };
  }

  #recordLink(batch: BatchRow, { recomputed, at, matches }: Link, broken: BrokenBatch): void {
    // The second candidate is the recomputed hash of the batch before, so only its stored hash was wrong.
    if (at === 1 && this.#suspect) this.#suspect.isHashOnly = true;
    this.#suspect = matches ? null : broken;
    this.#links = matches ? [batch.chain] : [batch.chain, recomputed[0] as Buffer];
    if (!matches) this.broken.push(broken);
  }

  #appendLeaf(leaf: HashText): void {
    if (this.tree === null) return;
    this.tree.append(leaf);
    if (this.rootSizes.length > 0) this.#recordRoot();
  }

  #recordRoot(): void {
    if (this.tree === null || this.rootSizes.length === 0) return;
    while (this.rootSizes.length > 0 && (this.rootSizes[0] as number) < this.tree.size)
      this.rootSizes.shift();
    if (this.rootSizes[0] !== this.tree.size) return;
    this.roots.set(this.tree.size, this.tree.root());
  }

  /** Reports the positions before this one as missing. */
  #skipTo(position: number): void {
    if (position <= this.next) return;
    const to = position - 1;
    this.findings.push({
      position: this.next,
      ...(to > this.next ? { to } : {}),
      table: 'log',
      problem: `${spanOf(this.next, to)} missing`,
    });
    // If full partitions are missing nothing in them can be verified, and nothing is buffered.
    if (to - this.next >= BATCH_EVENTS_MAX) {
      this.#pending = [];
      this.#links = [];
      this.#lastPosition = to;
      this.next = position;
      this.tree = null;
      return;
    }
    this.skip(to);
  }

  /** Ends rows without a batch. @param isReported whether that is a finding. */
  #endPending(isReported: boolean): void {
    const own = this.#pending.filter((row): row is EventRow => row !== null && !Buffer.isBuffer(row));
    const from = own[0]?.position;
    const to = this.#lastPosition + this.#pending.length;
    if (from !== undefined && isReported)
      this.findings.push({
        position: from,
        to,
        table: 'log_batch',
        problem: `${spanOf(from, to)} belong${from === to ? 's' : ''} to no batch`,
      });
    for (const row of own) {
      const [leaf] = leavesOf([row]).texts;
      if (leaf == null) continue;
      this.#compare(row.position, Buffer.from(leaf, 'latin1'));
      this.#appendLeaf(leaf);
    }
    this.#lastPosition += this.#pending.length;
    this.#pending = [];
    this.#links = [];
  }

  #find(position: number, table: string, problem: string): void {
    this.findings.push({ position, table, problem });
  }
}
