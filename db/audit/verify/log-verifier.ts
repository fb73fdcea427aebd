import type { LogRow, StoredBatch } from '#db/audit/verify/batches.ts';
import { type CheckedLines, checkLines } from '#db/audit/verify/lines.ts';
import { differenceOf, headersOf, type Linked, linkBatch } from '#db/audit/verify/links.ts';
import type { ManifestFactsCounter } from '#db/audit/verify/manifest-facts.ts';
import { type Finding, spanOf } from '#db/audit/verify/report.ts';
import { type AuditTree, type HashText, textOf } from '#db/audit/verify/tree.ts';
import { type BatchRow, LINE_FORMAT } from '#db/log/chain.ts';
import { type ControlEvent, EVENT_CODES } from '#db/events/events.ts';
import { SHARD } from '#db/log/append.ts';
import { AT } from '#db/log/columns.ts';
import type { Cells } from '#db/log/line.ts';

/** The state of the log before the first event that is read. */
export type Start = {
  /** The position of the first event. */
  first: number;
  /** The chain hash of the last batch before it; null if unknown. */
  chain: Buffer | null;
  /** The tree of all events before; null if unknown. */
  tree: AuditTree | null;
};

/** The published leaf hashes. */
export type PublishedLeaves = {
  /**
   * Compares leaf hashes from a position on.
   * @returns the positions that differ, and whether all of them were published.
   */
  compare(from: number, leaves: readonly HashText[]): { different: number[]; isComplete: boolean };
};

/** A batch whose chain hash does not match its events and its row. */
export type BrokenBatch = {
  from: number;
  to: number;
  /** How its leaves compare with the published ones. */
  leaves: 'same' | 'different' | 'unknown';
  /** The next batch continues the recomputed hash, so only the stored hash was changed. */
  isHashOnly: boolean;
};

/** A control event at its position. `event` is null if it is invalid. */
export type ControlLine = {
  position: number;
  at: string;
  instance: string;
  line: string;
  cells: Cells;
  stream: string;
  version: number;
  event: ControlEvent | null;
};

/** A correction at its position. */
export type CorrectionLine = Pick<ControlLine, 'position' | 'at' | 'cells'>;

const CORRECTION = String(EVENT_CODES['usage.adjusted']);

/** The events that a table has once more. */
export type CopiedLines = { controls: ControlLine[]; corrections: CorrectionLine[] };

/** A batch at its positions, with its lines. */
type Placed = { header: BatchRow; from: number; last: number; lines: CheckedLines };

/**
 * Verifies the batches of a log in order: lines, hash chain, published leaves and the tree. It records every
 * problem and never stops by itself. Pure: its input comes from a database or from files.
 */
export class LogVerifier {
  readonly #published: PublishedLeaves;
  readonly #facts: ManifestFactsCounter;
  /** The last positions of partitions or files, ascending, which no batch crosses. */
  readonly #borders: number[];
  /**
   * The chain hashes that the next batch can continue: the stored one, and, if that was wrong, the
   * recomputed.
   */
  #links: HashText[];
  #timeBefore = 0;
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
  /** Control events and corrections since the last {@link takeCopied}. */
  #copied: CopiedLines = { controls: [], corrections: [] };
  /** The sizes, ascending, whose roots are recorded while the tree grows. */
  #rootSizes: number[] = [];
  readonly roots = new Map<number, Buffer>();

  constructor(
    start: Start,
    published: PublishedLeaves,
    facts: ManifestFactsCounter,
    borders: readonly number[] = [],
  ) {
    this.#published = published;
    this.#facts = facts;
    this.#borders = [...borders];
    this.#links = start.chain === null ? [] : [textOf(start.chain)];
    this.next = start.first;
    this.tree = start.tree;
    this.#recordRoot();
  }

  /** The last position that was verified. */
  get verifiedTo(): number {
    return this.next - 1;
  }

  /** The number of problems so far. */
  get findingCount(): number {
    return this.findings.length + this.different.length + this.broken.length;
  }

  /** The sizes, ascending, whose roots are recorded while the tree grows. */
  set rootSizes(sizes: number[]) {
    this.#rootSizes = sizes;
    this.#recordRoot();
  }

  takeCopied(): CopiedLines {
    const copied = this.#copied;
    this.#copied = { controls: [], corrections: [] };
    return copied;
  }

  /** Adds the next batch. @param following the one after it, if it is known. */
  addBatch(batch: StoredBatch, following: StoredBatch | null = null): void {
    const { row, log } = batch;
    if (row !== null) this.batches++;
    if (row !== null && log !== null) this.#addWhole(row, log);
    else if (log !== null) this.#addWithoutRow(log, following);
    else if (row !== null) this.#addWithoutEvents(row, following, batch.unreadable);
    else this.#find(batch.last, 'log', batch.unreadable ?? 'is missing');
  }

  /** Ends the input. @param end the last position that should be there. */
  finish(end: number): void {
    this.#skipTo(end + 1);
  }

  #addWhole(row: BatchRow, log: LogRow): void {
    const stored = textOf(row.chain);
    let linked = linkBatch(this.#links, stored, row, log);
    if ((linked.at ?? -1) < 0 && differenceOf(row, log) !== null)
      linked.header = this.#likelyHeader(row, log);
    const { header } = linked;
    const placed = this.#place(header, log.events);
    if (placed === null) {
      this.#find(
        this.next,
        'log_batch',
        `the batch that ends at position ${row.lastPosition} is a duplicate`,
      );
      return;
    }
    const { from, last, lines } = placed;
    // The batch before is missing.
    if (this.#links.length === 0) linked = { header, at: null, recomputed: null };
    this.#checkRows(row, log, placed);
    const count = last - from + 1;
    const isWhole = lines.leaves.length === count;
    const own = isWhole ? lines.leaves : lines.leaves.slice(0, count);
    const { different, isComplete } = this.#published.compare(from, own);
    if (isWhole) this.different.push(...different);
    else {
      // A line behind the last position is one too many there.
      const end = Math.min(from + lines.leaves.length, last);
      this.#reportCount(placed, different[0] ?? (isComplete ? end : null));
    }
    this.#addLines(placed, isWhole);
    const leaves = different.length > 0 ? 'different' : isComplete ? 'same' : 'unknown';
    this.#recordLink(stored, linked, { from, to: last, leaves, isHashOnly: false });
    this.#addFacts(placed, isWhole && linked.at !== -1);
    this.next = last + 1;
  }

  /** A row of the log whose batch has no row. */
  #addWithoutRow(log: LogRow, following: StoredBatch | null): void {
    const header = { ...log, shard: String(SHARD), batchNo: '', format: LINE_FORMAT, chain: Buffer.alloc(0) };
    const end = Number(log.lastPosition);
    const placed = isWithin(following, end) ? null : this.#place(header, log.events);
    if (placed === null) {
      const first = Math.max(0, end - Number(log.eventCount) + 1);
      this.#find(first, 'log', `the row that ends at position ${end} belongs to no batch`);
      return;
    }
    const { from, last, lines } = placed;
    this.findings.push({
      position: from,
      to: last,
      table: 'log_batch',
      problem: `${spanOf(from, last)} belong${from === last ? 's' : ''} to no batch`,
    });
    const isWhole = lines.leaves.length === last - from + 1;
    if (isWhole) this.different.push(...this.#published.compare(from, lines.leaves).different);
    this.#addLines(placed, isWhole);
    this.#addFacts(placed, false);
    this.#links = [];
    this.next = last + 1;
  }

  /** A batch whose events are missing or can't be read. */
  #addWithoutEvents(row: BatchRow, following: StoredBatch | null, unreadable: string | undefined): void {
    const last = Number(row.lastPosition);
    const from = this.next;
    if (!(last >= from) || isWithin(following, last)) {
      this.#find(from, 'log_batch', `the batch that ends at position ${row.lastPosition} has no events`);
      return;
    }
    if (unreadable === undefined) this.#skipTo(last + 1);
    else {
      this.findings.push({ position: from, to: last, table: 'log', problem: unreadable });
      this.#skip(last);
    }
    this.#links = [textOf(row.chain)];
  }

  /** The positions of a batch; null if it ends before the next one. Reports those missing before it. */
  #place(header: BatchRow, events: string): Placed | null {
    const last = Number(header.lastPosition);
    if (!(last >= this.next)) return null;
    const lines = checkLines(header, this.next, events);
    const count = lines.leaves.length;
    const first = last - count + 1;
    // It is denser than the log if it has as many events as it states.
    if (first <= this.next || count !== Number(header.eventCount))
      return { header, from: this.next, last, lines };
    this.#skipTo(first);
    return { header, from: first, last, lines: checkLines(header, first, events) };
  }

  /** Of the values in which the rows of a broken batch differ, those whose leaves were published. */
  #likelyHeader(row: BatchRow, log: LogRow): BatchRow {
    const isLikely = (header: BatchRow): boolean => {
      const { leaves } = checkLines(header, this.next, log.events);
      const { different, isComplete } = this.#published.compare(this.next, leaves);
      return isComplete && different.length === 0;
    };
    return headersOf(row, log).find(isLikely) ?? row;
  }

  /** Checks what both rows state of a batch. */
  #checkRows(row: BatchRow, log: LogRow, { header, from, last, lines }: Placed): void {
    const problem = (text: string): void =>
      this.#find(from, 'log_batch', `the row of the batch that ends at position ${row.lastPosition} ${text}`);
    const ofRow = differenceOf(row, header);
    if (ofRow !== null) problem(`has another ${ofRow} than its events`);
    const ofLog = differenceOf(log, header);
    if (ofLog !== null)
      this.#find(
        from,
        'log',
        `the row that ends at position ${log.lastPosition} has another ${ofLog} than its batch`,
      );
    const count = last - from + 1;
    if (Number(header.eventCount) !== count && lines.leaves.length === count)
      problem(`counts ${header.eventCount} events instead of ${count}`);
    if (row.shard !== String(SHARD)) problem(`is of shard ${row.shard}`);
    if (row.format !== LINE_FORMAT) problem(`states the unknown format ${row.format}`);
    if (Number(header.at) < this.#timeBefore) problem('is earlier than the one before it');
    this.#timeBefore = Number(header.at);
    while (this.#borders[0] !== undefined && this.#borders[0] < from) this.#borders.shift();
    const border = this.#borders[0];
    if (border !== undefined && border < last)
      this.#find(
        from,
        'log',
        `the batch that ends at position ${last} crosses the border at position ${border}`,
      );
  }

  /** Reports a batch with more or fewer events than positions. @param at where, if that is known. */
  #reportCount({ from, last, lines }: Placed, at: number | null): void {
    const count = last - from + 1;
    this.findings.push({
      position: at ?? from,
      ...(at === null && last > from ? { to: last } : {}),
      table: 'log',
      problem: `${spanOf(from, last)}: their batch has ${lines.leaves.length} events instead of ${count}`,
    });
  }

  /** Adds lines to the tree, and those that are no plain requests to findings and copied lines. */
  #addLines({ header, from, lines }: Placed, isWhole: boolean): void {
    this.events += lines.leaves.length;
    if (!isWhole) this.tree = null;
    if (this.tree !== null) {
      for (const leaf of lines.leaves) {
        this.tree.append(leaf);
        if (this.tree.size === this.#rootSizes[0]) this.#recordRoot();
      }
    }
    for (const { index, line, checked } of lines.others) {
      const position = from + index;
      const { problem, cells } = checked;
      const { at, instance } = header;
      if (problem !== null) this.#find(position, 'log', problem);
      if (cells === null) continue;
      if (cells[AT.type] === CORRECTION) this.#copied.corrections.push({ position, at, cells });
      const stream = cells[AT.stream];
      if (stream == null) continue;
      const event = checked.problem === null ? checked.control : null;
      const version = Number(cells[AT.version]);
      this.#copied.controls.push({ position, at, instance, line, cells, stream, version, event });
    }
  }

  #addFacts({ header, last, lines }: Placed, isKnown: boolean): void {
    this.#facts.addBatch(
      isKnown ? { format: header.format, chain: header.chain, controls: controlLeaves(lines) } : null,
      last,
    );
  }

  #recordLink(stored: HashText, { at, recomputed }: Linked, broken: BrokenBatch): void {
    // The second candidate is the recomputed hash of the batch before, so only its stored hash was wrong.
    if (at === 1 && this.#suspect) this.#suspect.isHashOnly = true;
    const matches = at !== -1;
    this.#suspect = matches ? null : broken;
    this.#links = matches || recomputed === null ? [stored] : [stored, recomputed];
    if (!matches) this.broken.push(broken);
  }

  /** Records the root if it is one of those wanted. The first of {@link rootSizes} is always a later one. */
  #recordRoot(): void {
    if (this.tree === null) return;
    const { size } = this.tree;
    const sizes = this.#rootSizes;
    if (sizes.includes(size)) this.roots.set(size, this.tree.root());
    while (sizes.length > 0 && (sizes[0] as number) <= size) sizes.shift();
  }

  /** Reports the positions before this one as missing. */
  #skipTo(position: number): void {
    if (!(position > this.next)) return;
    const to = position - 1;
    this.findings.push({
      position: this.next,
      ...(to > this.next ? { to } : {}),
      table: 'log',
      problem: `${spanOf(this.next, to)} missing`,
    });
    this.#skip(to);
  }

  #skip(to: number): void {
    this.#facts.addBatch(null, to);
    this.#links = [];
    this.tree = null;
    this.next = to + 1;
  }

  #find(position: number, table: string, problem: string): void {
    this.findings.push({ position, table, problem });
  }
}

/** Whether a whole batch has positions up to this one, so that no other one does. */
const isWithin = (batch: StoredBatch | null, last: number): boolean =>
  batch !== null &&
  batch.row !== null &&
  batch.log !== null &&
  Number(batch.row.lastPosition) - Number(batch.row.eventCount) + 1 <= last;

const controlLeaves = ({ leaves, others }: CheckedLines): HashText[] =>
  others.flatMap(({ isControl, index }) => (isControl ? [leaves[index] as HashText] : []));
