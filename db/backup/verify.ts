import { BackupDamageError } from '#db/backup/file.ts';
import { type Manifest, readManifest } from '#db/backup/manifest.ts';
import { readToEnd, TableRows } from '#db/backup/rows.ts';
import { verifyLog } from '#db/backup/verify-log.ts';
import type { Damage } from '#db/log/chain.ts';

/** Files that are read while the log is verified. */
const VERIFIED_WITH_LOG = new Set(['daybook.log', 'daybook.log_batch', 'daybook.control_event']);

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
