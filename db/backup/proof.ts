import { createHash, type Hash } from 'node:crypto';
import { Manifest as ArchiveManifest } from '#db/archive/manifest.ts';
import { BackupDamageError } from '#db/backup/file.ts';
import { fileOf, type Manifest, type TableFile } from '#db/backup/manifest.ts';
import { batchesOf, bytesOf, leavesOf, Rows } from '#db/backup/rows.ts';
import { type Damage, genesis, type Leaf, leafOf, verifyBatches } from '#db/log/chain.ts';
import { parseCheckpoint } from '#db/tlog/checkpoint.ts';
import { GrowingTree, HASH_BYTES } from '#db/tlog/merkle.ts';
import { parseNote } from '#db/tlog/note.ts';

/**
 * What the log in a backup proves of itself, from its files alone: every event and every link of the
 * chain; where it is whole, the checkpoints that were signed of it; and the control events that stayed
 * of what was archived.
 */

/** A part of the log as its row tells it. */
type Part = { number: number; end: number; openLeaves: Buffer | null; archived: ArchiveManifest | null };

type Link = { position: number; chain: Buffer };

/** Of events that end nowhere no more are held than this. As in `db/archive/verify.ts`. */
const BATCH_EVENTS_MAX = 1_000_000;

/** What comes out of it: the last link that was proved, and where the log stops agreeing with its chain. */
export type Proof = { link: Link; damage: Damage | null };

/** @throws {BackupDamageError} when a file is not what the manifest says. */
export async function proveBackup(
  directory: string,
  manifest: Manifest,
  signal?: AbortSignal,
): Promise<Proof> {
  const parts = await readParts(directory, manifest);
  const proof = await proveLog(directory, manifest, parts, signal);
  return proof.damage === null ? { ...proof, damage: await proveKept(directory, manifest, parts) } : proof;
}

/** A file that every backup has. */
function required(manifest: Manifest, table: string): TableFile {
  const file = fileOf(manifest, table);
  if (file === undefined) throw new BackupDamageError(`the backup is damaged: it has no file of ${table}`);
  return file;
}

async function readParts(directory: string, manifest: Manifest): Promise<Part[]> {
  const rows = new Rows(directory, required(manifest, 'daybook.log_partition'));
  const [number, end, openLeaves, archived] = rows.places([
    'number',
    'end_position',
    'open_leaves',
    'manifest',
  ]) as [number, number, number, number];
  const parts: Part[] = [];
  for await (const row of rows) {
    const told = row[archived] ?? null;
    parts.push({
      number: Number(row[number]),
      end: Number(row[end]),
      openLeaves: row[openLeaves] == null ? null : bytesOf(row[openLeaves]),
      archived: told === null ? null : ArchiveManifest.parse(JSON.parse(told)),
    });
  }
  return parts;
}

async function proveLog(
  directory: string,
  manifest: Manifest,
  parts: readonly Part[],
  signal?: AbortSignal,
): Promise<Proof> {
  const events = new Rows(directory, required(manifest, 'daybook.log'));
  const batches = new Rows(directory, required(manifest, 'daybook.log_batch'));
  const archived = parts.filter(({ number }) => !manifest.partitions.includes(number));
  const first = Math.max(1, ...archived.map(({ end }) => end));
  const [leafRow, batchRow] = [leavesOf(events), batchesOf(batches)];
  const positionAt = events.places(['position'])[0] as number;
  const checkpoints = first === 1 ? await readCheckpoints(directory, manifest) : [];
  const tree = new GrowingTree();

  const before = await skipBatches(
    batches,
    { position: 0, chain: genesis(manifest.log_id) },
    first,
    archived,
  );
  let { link, damage } = before;
  let pending: Leaf[] = cutLeaves(archived.find(({ end }) => end === first)?.openLeaves ?? Buffer.alloc(0));
  if (damage === null && link.position + pending.length + 1 !== first)
    damage = { position: first, problem: 'its chain does not continue what was archived' };
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
      for (const leaf of pending) damage ??= grow(tree, leafOf(leaf, batch.format), checkpoints);
    link = { position: last, chain: batch.chain };
    pending = [];
  }
  const surplus = await events.peek();
  if (damage === null && surplus !== undefined)
    damage = { position: link.position + 1, problem: 'belongs to no batch' };
  if (damage === null && checkpoints[0] !== undefined)
    damage = {
      position: link.position + 1,
      problem: `missing: a checkpoint was signed at position ${checkpoints[0].size}`,
    };
  await finish(events, required(manifest, 'daybook.log'));
  await finish(batches, required(manifest, 'daybook.log_batch'));
  return { link, damage };
}

/** Takes the batches of what was archived: their events are in the archive, whose links they must be. */
async function skipBatches(
  batches: Rows,
  from: Link,
  first: number,
  archived: readonly Part[],
): Promise<Proof> {
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

/** A head that was signed, as its note tells it; without a root where the note is none of that size. */
type Signed = { size: number; root: Buffer | null };

/**
 * Adds a leaf. @returns what is wrong where a checkpoint was signed of the tree up to it, and of another one.
 */
function grow(tree: GrowingTree, leaf: Buffer, signed: Signed[]): Damage | null {
  tree.append(leaf);
  const [next] = signed;
  if (next === undefined || tree.size !== next.size) return null;
  signed.shift();
  if (next.root === null)
    return { position: next.size, problem: 'the checkpoint that was signed there is damaged' };
  return tree.root().equals(next.root)
    ? null
    : { position: next.size, problem: 'the log up to here is not the one that a checkpoint was signed of' };
}

/**
 * The checkpoints of the newest epoch, in their order: an older one may tell of a history that was given up.
 */
async function readCheckpoints(directory: string, manifest: Manifest): Promise<Signed[]> {
  const file = fileOf(manifest, 'daybook.checkpoint');
  if (file === undefined) return [];
  const rows = new Rows(directory, file);
  const [epoch, size, note] = rows.places(['epoch', 'size', 'note']) as [number, number, number];
  const found: (Signed & { epoch: number })[] = [];
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

/**
 * That the control events which stayed of archived parts are theirs: none changed, none more and none less.
 */
async function proveKept(
  directory: string,
  manifest: Manifest,
  parts: readonly Part[],
): Promise<Damage | null> {
  const file = required(manifest, 'daybook.log_kept');
  const kept = new Rows(directory, file);
  const batches = new Rows(directory, required(manifest, 'daybook.log_batch'));
  const [leafRow, batchRow] = [leavesOf(kept), batchesOf(batches)];
  const positionAt = kept.places(['position'])[0] as number;
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
      let batch = await batches.peek();
      while (batch !== undefined && Number(batchRow(batch).lastPosition) < Number(row[positionAt])) {
        batches.take();
        batch = await batches.peek();
      }
      digest.update(leafOf(leafRow(row), batch === undefined ? '' : batchRow(batch).format));
      count++;
    }
    if (count === archived.control_count && digest.digest('hex') === archived.control_sha256) continue;
    damage = {
      position: archived.first_position,
      problem: `the ${count} control events from there on are not the ${archived.control_count} that were archived in ${archived.file}`,
    };
  }
  if (damage === null && (await kept.peek()) !== undefined)
    damage = { position: 0, problem: 'control events are kept of a part that was not archived' };
  await batches.close();
  await finish(kept, file);
  return damage;
}

/** Reads what is left of a file, so that all of it is known to be what was written. */
export async function finish(rows: Rows, { file, rows: expected }: TableFile): Promise<void> {
  for await (const _ of rows);
  if (rows.taken !== expected)
    throw new BackupDamageError(
      `${file} of the backup is damaged: it holds ${rows.taken} rows, not ${expected}`,
    );
}

function cutLeaves(leaves: Buffer): Buffer[] {
  return Array.from({ length: leaves.length / HASH_BYTES }, (_, at) =>
    leaves.subarray(at * HASH_BYTES, (at + 1) * HASH_BYTES),
  );
}
