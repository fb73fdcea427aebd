import type { ClientBase } from 'pg';
import { StoreError } from '#db/postgres/connect.ts';
import { originOf } from '#db/fold/signing.ts';
import { tryHoldLock } from '#db/postgres/locks.ts';
import { appendControl } from '#db/log/append.ts';
import { readHead } from '#db/log/read.ts';
import { type Checkpoint, openCheckpoint, parseCheckpoint, signCheckpoint } from '#db/tlog/checkpoint.ts';
import { readClock } from '#db/schema/query.ts';
import { growNodes, writeTiles } from '#db/tlog/build-tree.ts';
import { hasCheckpoint, insertCheckpoint } from '#db/tlog/checkpoint-store.ts';
import { formatVerifierKey, parseNote, parseVerifierKey, type Signer } from '#db/tlog/note.ts';
import { readCheckpointFile, archiveEpoch, writeCheckpointFile } from '#db/tlog/publish-directory.ts';
import { createSigningKey, readSigners } from '#db/tlog/signing-key.ts';
import { readRoot, readLogState, requireConsistent, type LogState } from '#db/tlog/log-state.ts';

export type PublishOptions = {
  /** The file with the signing key, and the directory that the log is published in. */
  keyFile: string;
  directory: string;
  /** The instance that records a new key, and its batch numbers. */
  writer: { instance: number; nextBatchNo(): number };
};

/**
 * Signs and publishes a checkpoint of the log's head, with the tiles of its tree. A lock lets one process
 * publish at a time. A checkpoint is signed only if the log is consistent with the published one.
 * @param client a dedicated connection as the worker, with long timeouts.
 * @returns the checkpoint; null if another process is publishing, or the log has not grown.
 * @throws {StoreError} when the key is missing or is not the log's.
 * @throws {InconsistentLogError} when the log does not contain the published events.
 */
export async function publishCheckpoint(
  client: ClientBase,
  options: PublishOptions,
): Promise<Checkpoint | null> {
  const lock = await tryHoldLock(client, 'checkpoint');
  if (lock === null) return null;
  try {
    return await publish(client, options);
  } finally {
    await lock.release();
  }
}

async function publish(
  client: ClientBase,
  { keyFile, directory, writer }: PublishOptions,
): Promise<Checkpoint | null> {
  const state = await readLogState(client);
  await growNodes(client, state.head);
  const published = await requireConsistent(client, directory, state);
  const signers = openSigners(keyFile, state);
  if (published !== null) await restoreCheckpoint(client, directory, state, published.size);
  const keys = await recordSigner(client, signers[0] as Signer, state, writer);
  const size = await readHead(client);
  if (published?.size === size) return null;
  if (published === null) await archiveAbandonedEpoch(directory, state);
  await growNodes(client, size);
  await writeTiles(client, size, { directory, publishedSize: published?.size ?? 0 });
  const checkpoint = { origin: state.origin, size, root: await readRoot(client, size) };
  const note = signCheckpoint(checkpoint, signers);
  const publishedAt = await readClock(client);
  await writeCheckpointFile(directory, { note, publishedAt }, keys);
  await insertCheckpoint(client, { epoch: state.signing.epoch, size, note, publishedAt });
  return checkpoint;
}

/**
 * Stores the published checkpoint if a crash came between its publication and its row, or if the database is
 * a backup from before.
 */
async function restoreCheckpoint(
  client: ClientBase,
  directory: string,
  { signing }: LogState,
  size: number,
): Promise<void> {
  const { epoch } = signing;
  if (await hasCheckpoint(client, { epoch, size })) return;
  const note = await readCheckpointFile(directory);
  const verifiers = signing.keys.map(({ verifierKey }) => parseVerifierKey(verifierKey));
  if (note === null || openCheckpoint(note, verifiers).checkpoint.size !== size) return;
  await insertCheckpoint(client, { epoch, size, note, publishedAt: await readClock(client) });
}

const publicPart = (verifierKey: string): string => verifierKey.slice(verifierKey.lastIndexOf('+'));

/** The keys in the file. One of them must have signed this log before, if any key has. */
function openSigners(file: string, { origin, signing }: LogState): Signer[] {
  const known = signing.keys.at(-1)?.verifierKey;
  if (known === undefined) createSigningKey(file);
  const signers = readSigners(file, origin);
  if (signers === null) {
    throw new StoreError(
      `DAYBOOK_SIGNING_KEY_FILE: ${file} does not exist. It must contain the key that signs this log's ` +
        'checkpoints. Copy it from the host that signed them; if it is lost, run "daybook log ' +
        'replace-key"',
    );
  }
  if (
    known === undefined ||
    signers.some((signer) => publicPart(formatVerifierKey(signer)) === publicPart(known))
  )
    return signers;
  throw new StoreError(
    `DAYBOOK_SIGNING_KEY_FILE: ${file} is not the key that signs this log's checkpoints. Copy that key ` +
      'from the host that signed them; if it is lost, run "daybook log replace-key"',
  );
}

/** Records a key in the log before it signs for the first time. @returns all key lines, the newest last. */
async function recordSigner(
  client: ClientBase,
  signer: Signer,
  { signing }: LogState,
  writer: PublishOptions['writer'],
): Promise<string[]> {
  const line = formatVerifierKey(signer);
  const known = signing.keys.map(({ verifierKey }) => verifierKey);
  if (known.at(-1) === line) return known;
  const event = { type: 'log.signer_changed' as const, verifier_key: line, actor: 'worker' };
  await appendControl(client, writer.instance, writer.nextBatchNo(), [
    { event, version: signing.version + 1 },
  ]);
  return [...known, line];
}

/** Moves the published files of an abandoned epoch out of the way. */
async function archiveAbandonedEpoch(directory: string, { logId, signing }: LogState): Promise<void> {
  const note = await readCheckpointFile(directory);
  const origin = note === null ? null : parseCheckpoint(parseNote(note).text).origin;
  const abandoned = signing.lost.find(({ epoch }) => originOf(logId, epoch) === origin);
  if (abandoned) await archiveEpoch(directory, abandoned.epoch);
}
