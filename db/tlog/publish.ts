import type { ClientBase } from 'pg';
import { StoreError } from '#db/postgres/connect.ts';
import { originOf } from '#db/fold/signing.ts';
import { LOCKS } from '#db/postgres/locks.ts';
import { appendControl } from '#db/log/append.ts';
import { readHead } from '#db/log/read.ts';
import { type Checkpoint, parseCheckpoint, signCheckpoint } from '#db/tlog/checkpoint.ts';
import { growNodes, writeTiles } from '#db/tlog/grow.ts';
import { formatVerifierKey, parseNote, type Signer } from '#db/tlog/note.ts';
import { readCheckpointFile, setAside, writeCheckpointFile } from '#db/tlog/published.ts';
import { createSigningKey, readSigners } from '#db/tlog/signing-key.ts';
import { readRoot, readStanding, requireStanding, type Standing } from '#db/tlog/standing.ts';

export type PublishOptions = {
  /** Where the signing key lies, and where checkpoints go. */
  keyFile: string;
  directory: string;
  /** Under whose number a new key is put down, and the next of its batches. */
  writer: { instance: number; nextBatchNo(): number };
};

/**
 * Signs the head of the log and publishes it, with the tree below it. One process at a time does so.
 * Nothing is signed that does not continue what was published before.
 * @param client a connection as the worker, with nothing else on it and long time-outs.
 * @returns the checkpoint; null where another process is at it, or nothing is new.
 * @throws {StoreError} when the key is missing or not the log's, or {StaleLogError} when the log is not what
 * it was.
 */
export async function publishCheckpoint(
  client: ClientBase,
  options: PublishOptions,
): Promise<Checkpoint | null> {
  const { rows } = await client.query<{ is_ours: boolean }>(
    `select pg_try_advisory_lock(${LOCKS.checkpoint}) as is_ours`,
  );
  if (rows[0]?.is_ours !== true) return null;
  try {
    return await publish(client, options);
  } finally {
    // Where the connection is lost the lock went with it.
    await client.query(`select pg_advisory_unlock(${LOCKS.checkpoint})`).catch(() => undefined);
  }
}

async function publish(
  client: ClientBase,
  { keyFile, directory, writer }: PublishOptions,
): Promise<Checkpoint | null> {
  const standing = await readStanding(client);
  await growNodes(client, standing.head);
  const published = await requireStanding(client, directory, standing);
  const signers = openSigners(keyFile, standing);
  const keys = await putDownSigner(client, signers[0] as Signer, standing, writer);
  const size = await readHead(client);
  if (published?.size === size) return null;
  if (published === null) await setOlderAside(directory, standing);
  await growNodes(client, size);
  await writeTiles(client, size, { directory, publishedSize: published?.size ?? 0 });
  const checkpoint = { origin: standing.origin, size, root: await readRoot(client, size) };
  const note = signCheckpoint(checkpoint, signers);
  await writeCheckpointFile(directory, note, keys);
  await client.query(
    'insert into daybook.checkpoint (epoch, size, note) values ($1, $2, $3) on conflict do nothing',
    [standing.signing.epoch, size, note],
  );
  return checkpoint;
}

const publicPart = (verifierKey: string): string => verifierKey.slice(verifierKey.lastIndexOf('+'));

/** The keys in the file, one of which has signed this log before where any has. */
function openSigners(file: string, { origin, signing }: Standing): Signer[] {
  const known = signing.keys.at(-1)?.verifierKey;
  if (known === undefined) createSigningKey(file);
  const signers = readSigners(file, origin);
  if (signers === null) {
    throw new StoreError(
      `DAYBOOK_SIGNING_KEY_FILE is needed: ${file} should hold the key that signs this log's checkpoints. Copy it from the host that signed them; where it is lost: "daybook log replace-key"`,
    );
  }
  if (
    known === undefined ||
    signers.some((signer) => publicPart(formatVerifierKey(signer)) === publicPart(known))
  )
    return signers;
  throw new StoreError(
    `DAYBOOK_SIGNING_KEY_FILE is not usable: ${file} is not the key that signs this log's checkpoints. Copy that one from the host that signed them; where it is lost: "daybook log replace-key"`,
  );
}

/**
 * Puts a key down in the log before it signs for the first time. @returns the lines of all keys, the newest
 * last.
 */
async function putDownSigner(
  client: ClientBase,
  signer: Signer,
  { signing }: Standing,
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

/** What a directory holds of a history that was given up goes out of the way of this one. */
async function setOlderAside(directory: string, { logId, signing }: Standing): Promise<void> {
  const note = await readCheckpointFile(directory);
  const origin = note === null ? null : parseCheckpoint(parseNote(note).text).origin;
  const given = signing.lost.find(({ epoch }) => originOf(logId, epoch) === origin);
  if (given) await setAside(directory, given.epoch);
}
