import { createHash, type Hash } from 'node:crypto';
import { Manifest as ArchiveManifest } from '#db/archive/manifest.ts';
import { BackupDamageError } from '#db/backup/file.ts';
import { fileOf, type Manifest, readManifest, type TableFile } from '#db/backup/manifest.ts';
import { batchesOf, bytesOf, leavesOf, TableRows } from '#db/backup/rows.ts';
import { type Damage, genesis, type Leaf, leafOf, verifyBatches } from '#db/log/chain.ts';
import { parseCheckpoint } from '#db/tlog/checkpoint.ts';
import { GrowingTree, HASH_BYTES } from '#db/tlog/merkle.ts';
import { parseNote } from '#db/tlog/note.ts';

/**
 * Verifies the log in a backup from its files alone: every event and every link of the hash chain; the signed
 * checkpoints, if no part of the log is archived; and the retained control events of archived partitions.
 */

/** Files that are read while the log is verified. */
const VERIFIED_WITH_LOG = new Set(['daybook.log', 'daybook.log_batch', 'daybook.log_kept']);

/** A backup whose files are intact. `damage` is where its log does not match its hash chain. */
export type Verified = { manifest: Manifest; damage: Damage | null };

/**
 * Verifies a backup from its files alone: the digest of each file, and the log in it event by event.
 * @throws {BackupDamageError} when a file is missing or damaged, which makes a restore impossible.
 * @throws {StoreError} when the directory is not a backup.
 */
export async function verifyBackup(directory: string, signal?: AbortSignal): Promise<Verified> {
  const manifest = await readManifest(directory);
  return { manifest, damage: await verifyFiles(directory, manifest, signal) };
}

/** Verifies the files of a backup. @returns the damage of its log; null if it is valid. */
export async function verifyFiles(
  directory: string,
  manifest: Manifest,
  signal?: AbortSignal,
): Promise<Damage | null> {
  for (const file of manifest.files) {
    signal?.throwIfAborted();
    if (!VERIFIED_WITH_LOG.has(file.table)) await readToEnd(new TableRows(directory, file), file);
  }
  const { link, damage } = await verifyLog(directory, manifest, signal);
  const { head } = manifest;
  if (
    damage === null &&
    (link.position !== (head?.position ?? 0) || (head !== null && link.chain.toString('hex') !== head.chain))
  ) {
    throw new BackupDamageError(
      `the backup is damaged: its log ends at position ${link.position}, and its manifest says otherwise`,
    );
  }
  return damage;
}

/** A partition of the log, from its row in the backup. */
type BackedUpPartition = {
  number: number;
  end: number;
  openLeaves: Buffer | null;
  archived: ArchiveManifest | null;
};

type Link = { position: number; chain: Buffer };

/** Events buffered until their batch's row, as in `db/archive/verify.ts`. */
const BATCH_EVENTS_MAX = 1_000_000;

/** The last link that was verified, and the first damage; null if the log is valid. */
type LogVerification = { link: Link; damage: Damage | null };

/** Verifies the log of a backup. @throws {BackupDamageError} when a file does not match its manifest. */
async function verifyLog(
  directory: string,
  manifest: Manifest,
  signal?: AbortSignal,
): Promise<LogVerification> {
  const parts = await readPartitions(directory, manifest);
  const proof = await verifyChain(directory, manifest, parts, signal);
  return proof.damage === null
    ? { ...proof, damage: await verifyRetained(directory, manifest, parts) }
    : proof;
}

/** A file that every backup has. */
function required(manifest: Manifest, table: string): TableFile {
  const file = fileOf(manifest, table);
  if (file === undefined) throw new BackupDamageError(`the backup is damaged: it has no file of ${table}`);
  return file;
}

async function readPartitions(directory: string, manifest: Manifest): Promise<BackedUpPartition[]> {
  const rows = new TableRows(directory, required(manifest, 'daybook.log_partition'));
  const [number, end, openLeaves, archived] = rows.columnIndexes([
    'number',
    'end_position',
    'open_leaves',
    'manifest',
  ]) as [number, number, number, number];
  const parts: BackedUpPartition[] = [];
  for await (const row of rows) {
    const stored = row[archived] ?? null;
    parts.push({
      number: Number(row[number]),
      end: Number(row[end]),
      openLeaves: row[openLeaves] == null ? null : bytesOf(row[openLeaves]),
      archived: stored === null ? null : ArchiveManifest.parse(JSON.parse(stored)),
    });
  }
  return parts;
}

async function verifyChain(
  directory: string,
  manifest: Manifest,
  parts: readonly BackedUpPartition[],
  signal?: AbortSignal,
): Promise<LogVerification> {
  const events = new TableRows(directory, required(manifest, 'daybook.log'));
  const batches = new TableRows(directory, required(manifest, 'daybook.log_batch'));
  const archived = parts.filter(({ number }) => !manifest.partitions.includes(number));
  const first = Math.max(1, ...archived.map(({ end }) => end));
  const [leafRow, batchRow] = [leavesOf(events), batchesOf(batches)];
  const positionAt = events.columnIndexes(['position'])[0] as number;
  const checkpoints = first === 1 ? await readCheckpoints(directory, manifest) : [];
  const tree = new GrowingTree();

  const before = await skipBatches(
    batches,
    { position: 0, chain: genesis(manifest.log_id) },
    first,
    archived,
  );
  let { link, damage } = before;
  let pending: Leaf[] = splitLeaves(archived.find(({ end }) => end === first)?.openLeaves ?? Buffer.alloc(0));
  if (damage === null && link.position + pending.length + 1 !== first)
    damage = { position: first, problem: 'its chain does not continue the archived part' };
  for (let row = await batches.peek(); row !== undefined && damage === null; row = await batches.peek()) {
    signal?.throwIfAborted();
    batches.take();
    const batch = batchRow(row);
    const last = Number(batch.lastPosition);
    for (
      let event = await events.peek();
      event !== undefined && Number(event[positionAt]) <= last;
      event = await events.peek()
    ) {
      if (pending.length === BATCH_EVENTS_MAX)
        throw new BackupDamageError('the log of the backup has a batch without an end');
      pending.push(leafRow(event));
      events.take();
    }
    damage = verifyBatches(link, [batch], pending);
    if (damage !== null) break;
    if (checkpoints.length > 0)
      for (const leaf of pending) damage ??= appendLeaf(tree, leafOf(leaf), checkpoints);
    link = { position: last, chain: batch.chain };
    pending = [];
  }
  const surplus = await events.peek();
  if (damage === null && surplus !== undefined)
    damage = { position: link.position + 1, problem: 'belongs to no batch' };
  if (damage === null && checkpoints[0] !== undefined)
    damage = {
      position: link.position + 1,
      problem: `missing: a checkpoint of size ${checkpoints[0].size} was signed`,
    };
  await readToEnd(events, required(manifest, 'daybook.log'));
  await readToEnd(batches, required(manifest, 'daybook.log_batch'));
  return { link, damage };
}

/** Skips the batches of archived events, whose chain hashes must match the archive's. */
async function skipBatches(
  batches: TableRows,
  from: Link,
  first: number,
  archived: readonly BackedUpPartition[],
): Promise<LogVerification> {
  const batchRow = batchesOf(batches);
  const chains = new Map(
    archived.flatMap((part) =>
      part.archived ? [[part.archived.chain_after.position, part.archived.chain_after.chain] as const] : [],
    ),
  );
  let link = from;
  for (let row = await batches.peek(); row !== undefined; row = await batches.peek()) {
    const batch = batchRow(row);
    const last = Number(batch.lastPosition);
    if (last >= first) break;
    if (last - Number(batch.eventCount) !== link.position)
      return { link, damage: { position: link.position + 1, problem: 'batch row disagrees' } };
    if ((chains.get(last) ?? batch.chain.toString('hex')) !== batch.chain.toString('hex'))
      return { link, damage: { position: last, problem: 'its chain is not that of the archive' } };
    link = { position: last, chain: batch.chain };
    batches.take();
  }
  return { link, damage: null };
}

/** A signed tree head; without a root if its note is malformed or of another size. */
type SignedHead = { size: number; root: Buffer | null };

/** Appends a leaf. @returns the damage if a checkpoint of the new size has another root. */
function appendLeaf(tree: GrowingTree, leaf: Buffer, signed: SignedHead[]): Damage | null {
  tree.append(leaf);
  const [next] = signed;
  if (next === undefined || tree.size !== next.size) return null;
  signed.shift();
  if (next.root === null) return { position: next.size, problem: 'the checkpoint of this size is damaged' };
  return tree.root().equals(next.root)
    ? null
    : { position: next.size, problem: 'the log up to here does not match the signed checkpoint' };
}

/** The checkpoints of the newest epoch, in order. Older epochs can have abandoned events. */
async function readCheckpoints(directory: string, manifest: Manifest): Promise<SignedHead[]> {
  const file = fileOf(manifest, 'daybook.checkpoint');
  if (file === undefined) return [];
  const rows = new TableRows(directory, file);
  const [epoch, size, note] = rows.columnIndexes(['epoch', 'size', 'note']) as [number, number, number];
  const found: (SignedHead & { epoch: number })[] = [];
  for await (const row of rows) {
    const at = Number(row[size]);
    found.push({ epoch: Number(row[epoch]), size: at, root: rootIn(row[note] ?? '', at) });
  }
  const newest = Math.max(0, ...found.map((each) => each.epoch));
  return found
    .filter((each) => each.epoch === newest && each.size > 0)
    .toSorted((one, other) => one.size - other.size);
}

function rootIn(note: string, expected: number): Buffer | null {
  try {
    const { size, root } = parseCheckpoint(parseNote(note).text);
    return size === expected ? root : null;
  } catch {
    return null;
  }
}

/** Checks that the retained control events of archived partitions are complete and unchanged. */
async function verifyRetained(
  directory: string,
  manifest: Manifest,
  parts: readonly BackedUpPartition[],
): Promise<Damage | null> {
  const file = required(manifest, 'daybook.log_kept');
  const kept = new TableRows(directory, file);
  const leafRow = leavesOf(kept);
  const positionAt = kept.columnIndexes(['position'])[0] as number;
  let damage: Damage | null = null;
  for (const { end, archived } of parts) {
    if (archived === null || damage !== null) continue;
    const digest: Hash = createHash('sha256');
    let count = 0;
    for (
      let row = await kept.peek();
      row !== undefined && Number(row[positionAt]) < end;
      row = await kept.peek()
    ) {
      kept.take();
      digest.update(leafOf(leafRow(row)));
      count++;
    }
    if (count === archived.control_count && digest.digest('hex') === archived.control_sha256) continue;
    damage = {
      position: archived.first_position,
      problem:
        `the ${count} retained control events do not match the ${archived.control_count} archived ` +
        `in ${archived.file}`,
    };
  }
  if (damage === null && (await kept.peek()) !== undefined)
    damage = { position: 0, problem: 'control events are retained of a partition that is not archived' };
  await readToEnd(kept, file);
  return damage;
}

/** Reads the rest of a file, which verifies its digest and its number of rows. */
async function readToEnd(rows: TableRows, { file, rows: expected }: TableFile): Promise<void> {
  for await (const _ of rows);
  if (rows.taken !== expected)
    throw new BackupDamageError(
      `${file} of the backup is damaged: it holds ${rows.taken} rows, not ${expected}`,
    );
}

function splitLeaves(leaves: Buffer): Buffer[] {
  return Array.from({ length: leaves.length / HASH_BYTES }, (_, at) =>
    leaves.subarray(at * HASH_BYTES, (at + 1) * HASH_BYTES),
  );
}
