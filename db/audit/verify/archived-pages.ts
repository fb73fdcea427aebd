import path from 'node:path';
import type { ClientBase } from 'pg';
import { requireFile } from '#db/archive/archive.ts';
import { ArchiveDamageError } from '#db/archive/damage.ts';
import { Manifest } from '#db/archive/manifest.ts';
import { readFilePages } from '#db/archive/read-file.ts';
import { type LogRow, logRowOf, pairRows } from '#db/audit/verify/batches.ts';
import {
  BELOW_ALL_POSITIONS,
  type Page,
  pagesOf,
  readBatchRows,
  readCheckpointRows,
} from '#db/audit/verify/pages.ts';
import type { Finding } from '#db/audit/verify/report.ts';
import type { DatabaseSnapshot } from '#db/audit/verify/tables.ts';

/**
 * The archived part of a log: events from the files of the archive, the rows of batches from the database,
 * where they stay. A file that is not the recorded one is a finding, and is read anyway as far as possible.
 * @throws {StoreError} when a file is missing.
 */
export async function* archivedPages(
  client: ClientBase,
  directory: string,
  { partitions, first }: DatabaseSnapshot,
  findings: Finding[],
): AsyncGenerator<Page> {
  // The rows of log_partition may be wrong themselves: positions that they omit are read from the database.
  let after = 0;
  const between = async (logs: LogRow[], upTo: number): Promise<Page> => ({
    after,
    upTo,
    batches: pairRows(logs, await readBatchRows(client, { after: after || BELOW_ALL_POSITIONS, upTo })),
    checkpoints: await readCheckpointRows(client, after || BELOW_ALL_POSITIONS, upTo),
  });
  for (const partition of partitions) {
    const last = Math.min(partition.last, first - 1);
    const manifest = Manifest.safeParse(partition.manifest);
    if (last <= after || !manifest.success) continue;
    if (partition.first > after + 1) yield* pagesOf(client, after, partition.first - 1);
    after = Math.max(after, partition.first - 1);
    const file = path.join(directory, manifest.data.file);
    try {
      await requireFile(directory, manifest.data);
    } catch (error) {
      if (!(error instanceof ArchiveDamageError)) throw error;
      findings.push({
        position: partition.first,
        table: manifest.data.file,
        problem: 'its SHA-256 is not the recorded one',
      });
    }
    try {
      for await (const { batches } of readFilePages(file)) {
        const own: LogRow[] = [];
        let upTo = after;
        for (const batch of batches) {
          const end = Number(batch.row.lastPosition);
          if (end <= upTo || end > last) continue;
          own.push(logRowOf(batch));
          upTo = end;
        }
        if (upTo === after) continue;
        yield await between(own, upTo);
        after = upTo;
      }
    } catch (error) {
      if (!(error instanceof ArchiveDamageError)) throw error;
      findings.push({
        position: after + 1,
        table: manifest.data.file,
        problem: 'it is unreadable from here on',
      });
    }
    if (after < last) yield await between([], last);
    after = last;
  }
  if (after < first - 1) yield* pagesOf(client, after, first - 1);
}
