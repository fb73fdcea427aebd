import path from 'node:path';
import type { ClientBase } from 'pg';
import { requireFile } from '#db/archive/archive.ts';
import { Manifest } from '#db/archive/manifest.ts';
import { ArchiveDamageError } from '#db/archive/verify.ts';
import type { EventRow } from '#db/audit/source/lines.ts';
import { piecesOf } from '#db/audit/verify/file-chunks.ts';
import { LEAST, type Page, pagesOf, readBatches, readCheckpointRows } from '#db/audit/verify/pages.ts';
import type { Finding } from '#db/audit/verify/report.ts';
import type { Snapshot } from '#db/audit/verify/tables.ts';

/**
 * The part of a log that has left its database: events from the files of its archive, batches from the
 * database, where they stay. A file that is not the one that was recorded is put down, and what it has
 * is read all the same as far as that goes.
 * @throws {StoreError} when there is no such file.
 */
export async function* archivedPages(
  client: ClientBase,
  directory: string,
  { partitions, first }: Snapshot,
  beside: Finding[],
): AsyncGenerator<Page> {
  // Rows of the table of partitions may be wrong themselves: what they leave out is looked for in the
  // database.
  let after = 0;
  const between = async (rows: EventRow[], upTo: number): Promise<Page> => ({
    after,
    upTo,
    rows,
    batches: await readBatches(client, after || LEAST, upTo),
    checkpoints: await readCheckpointRows(client, after || LEAST, upTo),
    unreadable: [],
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
      beside.push({
        position: partition.first,
        table: manifest.data.file,
        problem: 'it is not the file that was recorded',
      });
    }
    try {
      for await (const { rows } of piecesOf(file)) {
        const own = rows.filter(({ position }) => position > after && position <= last);
        const upTo = own.at(-1)?.position;
        if (upTo === undefined) continue;
        yield await between(own, upTo);
        after = upTo;
      }
    } catch (error) {
      if (!(error instanceof ArchiveDamageError)) throw error;
      beside.push({
        position: after + 1,
        table: manifest.data.file,
        problem: 'it can be read to here and no further',
      });
    }
    if (after < last) yield await between([], last);
    after = last;
  }
  if (after < first - 1) yield* pagesOf(client, after, first - 1);
}
