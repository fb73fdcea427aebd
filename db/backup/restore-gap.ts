import { stat } from 'node:fs/promises';
import path from 'node:path';
import { connectBatch } from '#db/backup/connect.ts';
import type { Manifest } from '#db/backup/manifest.ts';
import { closeClient, type Store, StoreError } from '#db/postgres/connect.ts';
import { growNodes } from '#db/tlog/build-tree.ts';
import { readLogState, requireConsistent, InconsistentLogError } from '#db/tlog/log-state.ts';

/** The events published after the backup was taken, which the restored log lacks. */
export type RestoreGap = {
  /** Why the log is not consistent with the published one, and what to do. */
  problem: string;
  /** The positions that are known to be missing; null if the published log does not go beyond the backup. */
  positions: { first: number; last: number } | null;
  /** The time from the newest event in the backup to the publication; null if unknown. */
  between: { from: string; to: string } | null;
};

/**
 * Compares a restored log with the published one.
 * @param directory that the log is published in.
 * @returns null if no published event is missing.
 */
export async function findRestoreGap(
  store: Store,
  directory: string,
  { head }: Manifest,
): Promise<RestoreGap | null> {
  const client = await connectBatch(store, 'worker');
  try {
    const state = await readLogState(client);
    await growNodes(client, state.head);
    // Events appended by the restore itself are not part of the comparison.
    await requireConsistent(client, directory, { ...state, head: head?.position ?? 0 });
    return null;
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    const published = error instanceof InconsistentLogError ? error.published.size : 0;
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
