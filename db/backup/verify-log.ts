import { createHash } from 'node:crypto';
import { Manifest as ArchiveManifest } from '#db/archive/manifest.ts';
import { AuditTree, hashText } from '#db/audit/verify/tree.ts';
import { BackupDamageError } from '#db/backup/file.ts';
import { fileOf, type Manifest, type TableFile } from '#db/backup/manifest.ts';
import {
  batchesOf,
  type ControlRow,
  controlRowsOf,
  eventsOf,
  readToEnd,
  TableRows,
  Times,
} from '#db/backup/rows.ts';
import { CorrectionRows } from '#db/backup/correction-rows.ts';
import { type SignedHead, readCheckpoints } from '#db/backup/checkpoints.ts';
import {
  type Batch,
  type BatchRow,
  type Damage,
  entriesOf,
  genesis,
  leafHash,
  verifyBatch,
} from '#db/log/chain.ts';
import { hasControlLine, isControlLine } from '#db/log/control-lines.ts';

/**
 * Verifies the log in a backup from its files alone: every batch and every link of the hash chain; the signed
 * checkpoints, if no part of the log is archived; and the control events and corrections, which are stored
 * once more.
 */

type Link = { position: number; chain: Buffer };

/** The last link that was verified, and the first damage; null if the log is valid. */
type LogVerification = { link: Link; damage: Damage | null };

/**
 * Verifies the log of a backup.
 * @throws {BackupDamageError} when a file does not match its manifest.
 */
export async function verifyLog(
  directory: string,
  manifest: Manifest,
  signal?: AbortSignal,
): Promise<LogVerification> {
  const archived = await readArchived(directory, manifest);
  const files = ['daybook.log', 'daybook.log_batch', 'daybook.control_event', 'daybook.correction'].map(
    (table) => required(manifest, table),
  );
  const [events, batches, control, corrections] = files.map((file) => new TableRows(directory, file)) as [
    TableRows,
    TableRows,
    TableRows,
    TableRows,
  ];
  const times = new Times();
  const verifier = new LogVerifier({
    logId: manifest.log_id,
    archived,
    checkpoints: archived.length === 0 ? await readCheckpoints(directory, manifest) : [],
    events,
    control,
    corrections,
    times,
  });
  const batchRow = batchesOf(batches, times);
  let damage: Damage | null = null;
  for await (const row of batches) {
    signal?.throwIfAborted();
    damage = await verifier.add(batchRow(row));
    if (damage !== null) break;
  }
  damage ??= await verifier.damageAtEnd();
  for (const [index, rows] of [events, batches, control, corrections].entries())
    await readToEnd(rows, files[index] as TableFile);
  return { link: verifier.link, damage };
}

/** A file that every backup has. */
function required(manifest: Manifest, table: string): TableFile {
  const file = fileOf(manifest, table);
  if (file === undefined) throw new BackupDamageError(`the backup is damaged: it has no file of ${table}`);
  return file;
}

/** The manifests of archived partitions that are not in the backup, in order. */
async function readArchived(directory: string, manifest: Manifest): Promise<ArchiveManifest[]> {
  const rows = new TableRows(directory, required(manifest, 'daybook.log_partition'));
  const [number, stored] = rows.columnIndexes(['number', 'manifest']) as [number, number];
  const archived: ArchiveManifest[] = [];
  for await (const row of rows) {
    const text = row[stored] ?? null;
    if (text !== null && !manifest.partitions.includes(Number(row[number])))
      archived.push(ArchiveManifest.parse(JSON.parse(text)));
  }
  return archived.toSorted((one, other) => one.first_position - other.first_position);
}

type LogFiles = {
  logId: string;
  archived: ArchiveManifest[];
  checkpoints: SignedHead[];
  events: TableRows;
  control: TableRows;
  corrections: TableRows;
  times: Times;
};

/** Verifies batches in order, each with its events, its control events and its corrections. */
class LogVerifier {
  link: Link;
  readonly #archived: ArchiveManifest[];
  readonly #checkpoints: SignedHead[];
  readonly #tree = new AuditTree();
  readonly #events: TableRows;
  readonly #eventsOf: ReturnType<typeof eventsOf>;
  readonly #control: ControlRows;
  readonly #corrections: CorrectionRows;

  constructor({ logId, archived, checkpoints, events, control, corrections, times }: LogFiles) {
    this.link = { position: 0, chain: genesis(logId) };
    this.#archived = archived;
    this.#checkpoints = checkpoints;
    this.#events = events;
    this.#eventsOf = eventsOf(events, times);
    this.#control = new ControlRows(control, times);
    this.#corrections = new CorrectionRows(corrections, times);
  }

  async add(row: BatchRow): Promise<Damage | null> {
    const position = this.link.position + 1;
    const last = Number(row.lastPosition);
    const [archived] = this.#archived;
    const damage =
      archived !== undefined && position >= archived.first_position
        ? await this.#addArchived(row, archived)
        : await this.#addStored(row);
    if (damage === null) this.link = { position: last, chain: row.chain };
    return damage;
  }

  /** Its events are in a file of the archive, whose chain values and digests are known. */
  async #addArchived(row: BatchRow, archived: ArchiveManifest): Promise<Damage | null> {
    const position = this.link.position + 1;
    const last = Number(row.lastPosition);
    if (last - Number(row.eventCount) !== this.link.position || last > archived.last_position)
      return { position, problem: 'batch row disagrees' };
    if (position === archived.first_position && this.link.chain.toString('hex') !== archived.chain_before)
      return { position, problem: 'its chain does not continue the archived part' };
    if (last < archived.last_position) return null;
    this.#archived.shift();
    if (row.chain.toString('hex') !== archived.chain_after)
      return { position: last, problem: 'its chain is not that of the archive' };
    await this.#corrections.skip(archived);
    return this.#control.compareArchived(archived);
  }

  async #addStored(row: BatchRow): Promise<Damage | null> {
    const position = this.link.position + 1;
    const found = await this.#events.peek();
    if (found === undefined) return { position, problem: 'missing' };
    const { events, ...beside } = this.#eventsOf(found);
    const last = Number(row.lastPosition);
    if (last - Number(row.eventCount) !== this.link.position)
      return { position, problem: 'batch row disagrees' };
    if (Number(beside.lastPosition) > last) return { position, problem: 'missing' };
    if (Number(beside.lastPosition) < last) return { position, problem: 'belongs to no batch' };
    this.#events.take();
    const batch = { row: { ...row, ...beside }, events };
    return (
      verifyBatch(this.link, batch) ??
      (row.eventCount === beside.eventCount && row.at === beside.at && row.instance === beside.instance
        ? null
        : { position, problem: 'batch row disagrees' }) ??
      this.#appendLeaves(batch) ??
      (await this.#control.compare(batch)) ??
      (await this.#corrections.compare(batch))
    );
  }

  /** Appends the leaves of a batch. @returns the damage if a checkpoint among them has another root. */
  #appendLeaves(batch: Batch): Damage | null {
    if (this.#checkpoints.length === 0) return null;
    // The nodes are not compared: roots cover them.
    this.#tree.completed.length = 0;
    for (const entry of entriesOf(batch)) {
      this.#tree.append(hashText(`\0${entry}`));
      const [next] = this.#checkpoints;
      if (next === undefined || next.size !== this.#tree.size) continue;
      this.#checkpoints.shift();
      const position = next.size;
      if (next.root === null) return { position, problem: 'the checkpoint of this size is damaged' };
      if (!this.#tree.root().equals(next.root))
        return { position, problem: 'the log up to here does not match the signed checkpoint' };
    }
    return null;
  }

  async damageAtEnd(): Promise<Damage | null> {
    const position = this.link.position + 1;
    if (this.#archived.length > 0) return { position, problem: 'missing' };
    if ((await this.#events.peek()) !== undefined) return { position, problem: 'belongs to no batch' };
    const [next] = this.#checkpoints;
    if (next !== undefined)
      return { position, problem: `missing: a checkpoint of size ${next.size} was signed` };
    return (await this.#control.damageAtEnd()) ?? (await this.#corrections.damageAtEnd());
  }
}

/** Compares the rows of `control_event` with the log. */
class ControlRows {
  readonly #rows: TableRows;
  readonly #controlOf: ReturnType<typeof controlRowsOf>;

  constructor(rows: TableRows, times: Times) {
    this.#rows = rows;
    this.#controlOf = controlRowsOf(rows, times);
  }

  /** Compares the control events of a batch. */
  async compare(batch: Batch): Promise<Damage | null> {
    if (!hasControlLine(batch.events)) return null;
    const entries = entriesOf(batch);
    const first = Number(batch.row.lastPosition) - entries.length + 1;
    for (const [index, line] of batch.events.split('\n').entries()) {
      if (!isControlLine(line)) continue;
      const position = first + index;
      const row = await this.#take(position);
      if (row === null || row.position !== position)
        return { position: row?.position ?? position, problem: DIFFERENT };
      if (row.entry !== entries[index] || !row.isConsistent) return { position, problem: DIFFERENT };
    }
    return null;
  }

  /** Compares those of an archived partition with its manifest. */
  async compareArchived(archived: ArchiveManifest): Promise<Damage | null> {
    const { first_position, last_position } = archived;
    const digest = createHash('sha256');
    let count = 0;
    for (let row = await this.#take(last_position); row !== null; row = await this.#take(last_position)) {
      if (row.position < first_position || !row.isConsistent)
        return { position: row.position, problem: DIFFERENT };
      digest.update(leafHash(row.entry));
      count++;
    }
    if (count === archived.control_count && digest.digest('hex') === archived.control_sha256) return null;
    return {
      position: first_position,
      problem: `its ${count} control events do not match the ${archived.control_count} in ${archived.file}`,
    };
  }

  async damageAtEnd(): Promise<Damage | null> {
    const row = await this.#take(Number.MAX_SAFE_INTEGER);
    return row === null ? null : { position: row.position, problem: DIFFERENT };
  }

  /** Consumes the next row; null if it is above a position, or the last one was consumed. */
  async #take(upTo: number): Promise<ControlRow | null> {
    const row = await this.#rows.peek();
    if (row === undefined) return null;
    const control = this.#controlOf(row);
    if (control.position > upTo) return null;
    this.#rows.take();
    return control;
  }
}

const DIFFERENT = 'its row in control_event differs from the log';
