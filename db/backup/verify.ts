import { BackupDamageError } from '#db/backup/file.ts';
import { type Manifest, readManifest } from '#db/backup/manifest.ts';
import { finish, proveBackup } from '#db/backup/proof.ts';
import { Rows } from '#db/backup/rows.ts';
import type { Damage } from '#db/log/chain.ts';

/** Files whose rows are read while the log is proved. */
const PROVED = new Set(['daybook.log', 'daybook.log_batch', 'daybook.log_kept']);

/** A backup whose files are what was written. `damage`: where the log in it does not agree with its chain. */
export type Verified = { manifest: Manifest; damage: Damage | null };

/**
 * Checks a backup from its files alone: that each is what was written, and the log in it event by event.
 * @throws {BackupDamageError} when a file is missing or damaged: with that a restore can't be done.
 * @throws {StoreError} when there is no backup.
 */
export async function verifyBackup(directory: string, signal?: AbortSignal): Promise<Verified> {
  const manifest = await readManifest(directory);
  return { manifest, damage: await verifyFiles(directory, manifest, signal) };
}

/** The same with the manifest at hand. */
export async function verifyFiles(
  directory: string,
  manifest: Manifest,
  signal?: AbortSignal,
): Promise<Damage | null> {
  for (const file of manifest.files) {
    signal?.throwIfAborted();
    if (!PROVED.has(file.table)) await finish(new Rows(directory, file), file);
  }
  const { link, damage } = await proveBackup(directory, manifest, signal);
  const { head } = manifest;
  if (
    damage === null &&
    (link.position !== (head?.position ?? 0) || (head !== null && link.chain.toString('hex') !== head.chain))
  ) {
    throw new BackupDamageError(
      `the backup is damaged: its log ends at position ${link.position}, and the manifest tells of another end`,
    );
  }
  return damage;
}
