import { stat } from 'node:fs/promises';
import path from 'node:path';
import type { Manifest } from '#db/backup/manifest.ts';
import { BACKUP_STATEMENT_TIMEOUT_MS } from '#db/backup/restore.ts';
import { closeClient, connectAs, patient, type Store, StoreError } from '#db/postgres/connect.ts';
import { growNodes } from '#db/tlog/grow.ts';
import { readStanding, requireStanding, StaleLogError } from '#db/tlog/standing.ts';

/** What was published of the log after a backup of it was taken, as far as it can be told. */
export type Loss = {
  /** Why the log is not the one that was published, and what to do about it. */
  problem: string;
  /**
   * The positions that are missing for certain; null where what was published does not go beyond the backup.
   */
  positions: { first: number; last: number } | null;
  /** Between the newest event of the backup and the publication: null where that time is not known. */
  between: { from: string; to: string } | null;
};

/**
 * Compares a restored log with what was published of it.
 * @param directory where checkpoints are published.
 * @returns null where nothing that was published is missing.
 */
export async function readLoss(store: Store, directory: string, { head }: Manifest): Promise<Loss | null> {
  const client = await connectAs(patient(store), 'worker', BACKUP_STATEMENT_TIMEOUT_MS);
  try {
    const standing = await readStanding(client);
    await growNodes(client, standing.head);
    // What was ended after the loading is not what was published.
    await requireStanding(client, directory, { ...standing, head: head?.position ?? 0 });
    return null;
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    const published = error instanceof StaleLogError ? error.published.size : 0;
    const last = head?.position ?? 0;
    const positions = published > last ? { first: last + 1, last: published } : null;
    const at = await stat(path.join(directory, 'checkpoint')).catch(() => null);
    return {
      problem: error.message,
      positions,
      between: at === null || head === null ? null : { from: head.at, to: at.mtime.toISOString() },
    };
  } finally {
    await closeClient(client);
  }
}
