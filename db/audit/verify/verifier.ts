import { type EventRow, hasSurplus, textOf } from '#db/audit/source/lines.ts';
import { AT, checkEvent } from '#db/audit/verify/event.ts';
import { FORMATS, leavesOf, type Pending } from '#db/audit/verify/leaves.ts';
import type { PartCounter } from '#db/audit/verify/parts.ts';
import { type Finding, OF_ANOTHER_BATCH, spanOf } from '#db/audit/verify/report.ts';
import type { AuditTree, HashText } from '#db/audit/verify/tree.ts';
import { type BatchRow, linkBatch } from '#db/log/chain.ts';
import type { ControlEvent } from '#db/events/events.ts';
import { HASH_BYTES } from '#db/tlog/merkle.ts';

/** Events that are held until their batch's row comes: many times what is ever appended at once. */
const BATCH_EVENTS_MAX = 1_000_000;

/** What is known of the log before the first event that is read. */
export type Start = {
  /** The first event that comes. */
  first: number;
  /** The chain at the end of the last batch before it; null where nobody can tell. */
  chain: Buffer | null;
  /** Leaf hashes of the first batch's rows that are not at hand. */
  leavesBefore: readonly Buffer[];
  /** The tree of all that is before; null where it is not at hand. */
  tree: AuditTree | null;
};

/** Leaf hashes as they were published. */
export type PublishedLeaves = {
  /**
   * Compares the leaves from a position on, one behind the other. @returns the positions of others, and
   * whether all were published.
   */
  compare(from: number, leaves: Buffer): { different: number[]; isWhole: boolean };
};

/** A batch whose chain value is not the one that its rows come to. */
export type Broken = {
  from: number;
  to: number;
  /** The leaves compared with those that were published. */
  leaves: 'same' | 'different' | 'unknown';
  /** What follows fits what this batch's rows come to, so it is its stored value that was changed. */
  isValueAlone: boolean;
};

/** A control event where it stands; `leaf` is there once its batch was taken. */
export type ControlRow = {
  position: number;
  text: string;
  stream: string;
  version: number;
  event: ControlEvent | null;
};

type Link = { reckoned: readonly Buffer[]; at: number; fits: boolean };

/**
 * Goes through a log in order, row by row and batch by batch, and puts down everything that does not
 * fit; it never stops by itself. Pure: what it is fed comes from a database or from files.
 */
export class Verifier {
  readonly #published: PublishedLeaves;
  readonly #parts: PartCounter;
  /**
   * The chain values that the next batch may continue: the stored one, and where that was wrong the one that
   * was reckoned.
   */
  #links: Buffer[];
  #before: BatchRow | null = null;
  #lastPosition: number;
  #pending: Pending[] = [];
  #suspect: Broken | null = null;
  #format = '2';
  tree: AuditTree | null;

  /** The position of the event that comes next. */
  next: number;
  events = 0;
  batches = 0;
  readonly findings: Finding[] = [];
  /** Positions whose leaf is not the one that was published. */
  readonly different: number[] = [];
  readonly broken: Broken[] = [];
  /** Control events since the last {@link takeControls}. */
  #controls: ControlRow[] = [];
  /** At these sizes the root is kept, ascending; it is looked at as the tree grows. */
  wanted: number[] = [];
  readonly roots = new Map<number, Buffer>();

  constructor(start: Start, published: PublishedLeaves, parts: PartCounter) {
    this.#published = published;
    this.#parts = parts;
    this.#links = start.chain === null ? [] : [start.chain];
    this.next = start.first;
    this.#lastPosition = start.first - 1 - start.leavesBefore.length;
    this.#pending = [...start.leavesBefore];
    this.tree = start.tree;
    this.#keepRoot();
  }

  /** The last position whose batch was taken. */
  get taken(): number {
    return this.#lastPosition;
  }

  /** How much there is to say so far. */
  get found(): number {
    return this.findings.length + this.different.length + this.broken.length;
  }

  takeControls(): ControlRow[] {
    return this.#controls.splice(0);
  }

  takeRow(row: EventRow): void {
    const { position } = row;
    if (!(position >= this.next)) {
      const why = position === this.next - 1 ? 'stands there twice' : 'stands where none may be';
      this.#find(
        Number.isNaN(position) ? this.next : position,
        'log',
        Number.isNaN(position) ? 'there is a row without a position' : why,
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

  /**
   * Leaf hashes of rows that are not at hand, behind the last one: those that the last batch goes on with.
   */
  takeLeaves(leaves: readonly Buffer[]): void {
    this.#pending.push(...leaves);
  }

  /** Rows up to a position that nobody could read; what was wrong with them has been said. */
  skip(to: number): void {
    while (this.next <= to) {
      this.#pending.push(null);
      this.next++;
    }
    this.tree = null;
  }

  takeBatch(batch: BatchRow): void {
    this.batches++;
    const last = Number(batch.lastPosition);
    const from = this.#lastPosition + 1;
    const count = Number(batch.eventCount);
    this.#checkBatch(batch, from);
    if (!(last >= from)) {
      this.#find(from, 'log_batch', `the batch that ends at position ${batch.lastPosition} is one too many`);
      return;
    }
    if (last >= this.next && this.#lastPosition + this.#pending.length < last) this.#skipTo(last + 1);
    const own = this.#pending.splice(0, last - this.#lastPosition);
    const isWhole = count === own.length;
    if (!isWhole) {
      const missing = own.length - count;
      if (missing > 0)
        this.#find(
          from,
          'log_batch',
          `no batch has ${spanOf(from, from + missing - 1)}, or the row of the batch that ends at ${last} counts wrong`,
        );
      else
        this.#find(
          from,
          'log_batch',
          `the row of the batch that ends at position ${last} counts ${count} events, and there are ${own.length}`,
        );
    }
    this.#lastPosition = last;
    this.#before = batch;
    this.#prove(batch, own, from, isWhole);
  }

  /** Nothing comes any more. @param end what there should be to the end. */
  finish(end: number): void {
    // What is missing at the end has taken the row of its batch with it.
    const isCut = this.next <= end;
    if (isCut) this.#skipTo(end + 1);
    this.#endPending(!isCut);
  }

  #checkBatch(batch: BatchRow, from: number): void {
    const problem = (text: string): void =>
      this.#find(from, 'log_batch', `the batch that ends at position ${batch.lastPosition} ${text}`);
    if (batch.shard !== '0') problem(`is of shard ${batch.shard}`);
    if (batch.at === '') problem('has no time');
    else if (this.#before && Number(batch.at) < Number(this.#before.at))
      problem('is earlier than the one before it');
    // One that nobody knows is told by what its chain value is of.
    if (FORMATS.includes(batch.format)) this.#format = batch.format;
  }

  #prove(stated: BatchRow, own: readonly Pending[], from: number, isWhole: boolean): void {
    let batch = stated;
    let leaves = leavesOf(own, this.#format);
    let link = isWhole && leaves.isKnown ? this.#linkOf(batch, leaves.bytes) : null;
    if (link !== null && !link.fits) {
      // Whoever changes the format of a batch has changed none of its rows.
      const other = FORMATS.find(
        (format) =>
          format !== stated.format && this.#linkOf({ ...stated, format }, leavesOf(own, format).bytes).fits,
      );
      if (other !== undefined) {
        this.#find(
          from,
          'log_batch',
          `the batch that ends at position ${stated.lastPosition} says it is of format ${stated.format}, and is of format ${other}`,
        );
        batch = { ...stated, format: other };
        leaves = leavesOf(own, other);
        link = this.#linkOf(batch, leaves.bytes);
      }
    }
    const controls = new Set<number>();
    const unlike: number[] = [];
    for (let index = 0; index < own.length; index++) {
      const row = own[index] as Pending;
      if (row === null || Buffer.isBuffer(row)) continue;
      if (row.fields !== null && row.fields[AT.stream] != null) controls.add(row.position);
      if (row.at !== batch.at || row.instance !== batch.instance) unlike.push(row.position);
      if (batch.format === '1' && hasSurplus(row, batch.format))
        this.#find(row.position, 'log', 'has more than the format of its batch covers');
      const leaf = leaves.texts[index];
      if (leaf != null) this.#grow(leaf);
    }
    // Where some rows are unlike their batch it is they that were changed, and where all are the batch.
    if (isWhole && unlike.length < own.length)
      for (const position of unlike) this.#find(position, 'log', OF_ANOTHER_BATCH);
    if (isWhole && unlike.length > 0 && unlike.length === own.length)
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
      this.#follow(batch, link, { from, to: from + own.length - 1, leaves: leavesAre, isValueAlone: false });
    else {
      // Nobody can tell what came before; the next one is taken to continue this one's own word.
      this.#links = [batch.chain];
      this.#suspect = null;
    }
    if (leaves.isKnown)
      this.#parts.take(from, leaves.bytes, controls, batch.format, {
        position: Number(batch.lastPosition),
        chain: batch.chain.toString('hex'),
      });
  }

  #compare(from: number, leaves: Buffer): Broken['leaves'] {
    const { different, isWhole } = this.#published.compare(from, leaves);
    this.different.push(...different);
    if (different.length > 0) return 'different';
    return isWhole ? 'same' : 'unknown';
  }

  /**
   * What a batch's chain value has to be, after each value that it may continue, and which of these it is.
   */
  #linkOf(batch: BatchRow, leaves: Buffer): Link {
    // All leaves at once are to the chain what they are one by one.
    const reckoned = this.#links.map((before) => linkBatch(before, [leaves], batch));
    const at = reckoned.findIndex((value) => value.equals(batch.chain));
    return { reckoned, at, fits: at >= 0 || reckoned.length === 0 };
  }

  #follow(batch: BatchRow, { reckoned, at, fits }: Link, broken: Broken): void {
    // The second of two is what the batch before came to: then it was its stored value that was wrong.
    if (at === 1 && this.#suspect) this.#suspect.isValueAlone = true;
    this.#suspect = fits ? null : broken;
    this.#links = fits ? [batch.chain] : [batch.chain, reckoned[0] as Buffer];
    if (!fits) this.broken.push(broken);
  }

  #grow(leaf: HashText): void {
    if (this.tree === null) return;
    this.tree.append(leaf);
    if (this.wanted.length > 0) this.#keepRoot();
  }

  #keepRoot(): void {
    if (this.tree === null || this.wanted.length === 0) return;
    while (this.wanted.length > 0 && (this.wanted[0] as number) < this.tree.size) this.wanted.shift();
    if (this.wanted[0] !== this.tree.size) return;
    this.roots.set(this.tree.size, this.tree.root());
  }

  /** Positions before this one that did not come. */
  #skipTo(position: number): void {
    if (position <= this.next) return;
    const to = position - 1;
    this.findings.push({
      position: this.next,
      ...(to > this.next ? { to } : {}),
      table: 'log',
      problem: `${spanOf(this.next, to)} missing`,
    });
    // Where whole partitions are missing nothing of them can be proved, and nothing has to be held for it.
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

  /** @param isToTell whether anybody has to be told that they belong to no batch. */
  #endPending(isToTell: boolean): void {
    const own = this.#pending.filter((row): row is EventRow => row !== null && !Buffer.isBuffer(row));
    const from = own[0]?.position;
    const to = this.#lastPosition + this.#pending.length;
    if (from !== undefined && isToTell)
      this.findings.push({
        position: from,
        to,
        table: 'log_batch',
        problem: `${spanOf(from, to)} belong${from === to ? 's' : ''} to no batch`,
      });
    for (const row of own) {
      const [leaf] = leavesOf([row], this.#format).texts;
      if (leaf == null) continue;
      this.#compare(row.position, Buffer.from(leaf, 'latin1'));
      this.#grow(leaf);
    }
    this.#lastPosition += this.#pending.length;
    this.#pending = [];
    this.#links = [];
  }

  #find(position: number, table: string, problem: string): void {
    this.findings.push({ position, table, problem });
  }
}
