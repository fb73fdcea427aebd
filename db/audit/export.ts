import { access, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClientBase } from 'pg';
import { exportRange, wholeBatches } from '#db/archive/export.ts';
import { fileName, type FileManifest, manifestName, type Proof } from '#db/archive/manifest.ts';
import { verifyFile } from '#db/archive/verify.ts';
import { hashesFromDirectory } from '#db/tlog/tiles.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { SHARD } from '#db/log/append.ts';
import { type Checkpoint, parseCheckpoint } from '#db/tlog/checkpoint.ts';
import { hashesIn, MissingHashesError } from '#db/tlog/hashes.ts';
import { type Subtree, subtreesOf } from '#db/tlog/merkle.ts';
import { NoteError, parseNote } from '#db/tlog/note.ts';
import { readCheckpointFile, readVerifierKeys } from '#db/tlog/publish-directory.ts';
import { db, rowOf } from '#db/schema/query.ts';
import { readLogState } from '#db/tlog/log-state.ts';
import { CHECKPOINT_POLL_MS, CHECKPOINT_WAIT_MS } from '#db/audit/bounds.ts';

/**
 * Exports: a range of the log in a file, with a manifest and a proof against a signed checkpoint, so that an
 * auditor needs only the verifier key.
 */

export type ExportOptions = {
  from: number;
  to: number;
  directory: string;
  /** The directory that the log is published in, if available. */
  published: string | undefined;
  onProgress?: (done: number, total: number) => void;
  /** How long to wait for a checkpoint that covers `to`. */
  waitMs?: number;
};

/** The exported file; `unproved` is the reason if it has no proof. */
export type Exported = { file: string; manifest: FileManifest; unproved: string | null };

/**
 * Writes a range of the log to a file in a directory, reads it back, and adds its manifest and its proof. The
 * range is extended to whole batches.
 * @param client connected as the auditor, with a long statement timeout.
 * @throws {StoreError} when the file exists, or the range is not entirely in the database.
 * @throws {ArchiveDamageError} when the events read back don't match their hash chain.
 */
export async function exportPart(
  client: ClientBase,
  { from: first, to: last, directory, published, onProgress, waitMs = CHECKPOINT_WAIT_MS }: ExportOptions,
): Promise<Exported> {
  const { from, to } = await wholeBatches(client, { from: first, to: last });
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const name = fileName(`log-${from}-${to}`);
  const file = path.join(directory, name);
  if (
    await access(file).then(
      () => true,
      () => false,
    )
  )
    throw new StoreError(`${file} already exists`);
  const partial = `${file}.partial`;
  try {
    let done = 0;
    await exportRange(client, { from, to }, partial, (count) => onProgress?.((done += count), to - from + 1));
    const facts = await verifyFile(partial);
    const { proof, unproved } = await prove(client, from, to, published, waitMs);
    const manifest: FileManifest = {
      ...facts,
      file: name,
      made_at: new Date().toISOString(),
      ...(proof === null ? {} : { proof }),
    };
    await rename(partial, file);
    await writeFile(path.join(directory, manifestName(name)), `${JSON.stringify(manifest, null, 2)}\n`, {
      mode: 0o600,
      flush: true,
    });
    return { file, manifest, unproved };
  } finally {
    await rm(partial, { force: true });
  }
}

async function prove(
  client: ClientBase,
  from: number,
  to: number,
  published: string | undefined,
  waitMs: number,
): Promise<{ proof: Proof | null; unproved: string | null }> {
  const found = await awaitCheckpoint(client, to, published, waitMs);
  if (found === null)
    return { proof: null, unproved: `no checkpoint covers position ${to} yet. Is the worker running?` };
  try {
    const hex = async (subtrees: readonly Subtree[]): Promise<string[]> =>
      (await readHashes(client, subtrees, published)).map((each) => each.toString('hex'));
    const { size } = found.checkpoint;
    return {
      proof: {
        checkpoint: found.note,
        keys: found.keys,
        before: await hex(subtreesOf(0, from - 1)),
        after: await hex(subtreesOf(to, size)),
      },
      unproved: null,
    };
  } catch (error) {
    if (!(error instanceof MissingHashesError)) throw error;
    return { proof: null, unproved: error.message };
  }
}

/** Reads hashes from the database or, for archived events, from published tiles. */
async function readHashes(
  client: ClientBase,
  subtrees: readonly Subtree[],
  published: string | undefined,
): Promise<Buffer[]> {
  const inDatabase = hashesIn(client);
  const hashes: Buffer[] = [];
  for (const subtree of subtrees) {
    const read = inDatabase([subtree]).catch(async (error: unknown) => {
      const note =
        published === undefined || !(error instanceof MissingHashesError)
          ? null
          : await readCheckpointFile(published);
      if (note === null || published === undefined) throw error;
      return hashesFromDirectory(published, parseCheckpoint(parseNote(note).text).size)([subtree]);
    });
    hashes.push(...(await read));
  }
  return hashes;
}

type Found = { note: string; checkpoint: Checkpoint; keys: string[] };

async function awaitCheckpoint(
  client: ClientBase,
  to: number,
  published: string | undefined,
  waitMs: number,
): Promise<Found | null> {
  for (const deadline = performance.now() + waitMs; ; await sleep(CHECKPOINT_POLL_MS)) {
    const found = await findCheckpoint(client, to, published);
    if (found !== null || performance.now() >= deadline) return found;
  }
}

async function findCheckpoint(
  client: ClientBase,
  to: number,
  published: string | undefined,
): Promise<Found | null> {
  const { signing, origin, head } = await readLogState(client);
  const covering = db
    .selectFrom('daybook.checkpoint')
    .select('note')
    .where('shard', '=', SHARD)
    .where('epoch', '=', signing.epoch)
    .where('size', '>=', String(to))
    .orderBy('size')
    .limit(1);
  const stored = await rowOf(client, covering);
  const outside = published === undefined ? null : await readCheckpointFile(published);
  const keys = published === undefined ? [] : await readVerifierKeys(published);
  for (const note of [stored?.note, outside]) {
    try {
      const checkpoint = parseCheckpoint(parseNote(note ?? '').text);
      if (checkpoint.origin === origin && checkpoint.size >= to && checkpoint.size <= head) {
        return {
          note: note as string,
          checkpoint,
          keys: keys.length > 0 ? keys : signing.keys.map(({ verifierKey }) => verifierKey),
        };
      }
    } catch (error) {
      if (!(error instanceof NoteError)) throw error;
    }
  }
  return null;
}
