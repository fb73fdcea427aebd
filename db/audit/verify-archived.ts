import path from 'node:path';
import type { ClientBase } from 'pg';
import { requireFile } from '#db/archive/archive.ts';
import { Manifest } from '#db/archive/manifest.ts';
import { ArchiveDamageError } from '#db/archive/verify.ts';
import { piecesOf } from '#db/audit/verify-file-pieces.ts';
import { type Page, readBatches, readCheckpointRows } from '#db/audit/verify-pages.ts';
import type { Finding } from '#db/audit/verify-report.ts';
import type { Snapshot } from '#db/audit/verify-tables.ts';
import { StoreError } from '#db/connect.ts';

/**
 * The part of a log that has left its database: events from the files of its archive, batches from the
 * database, where they stay. A file that is not the one that was recorded is put down, and what it has
 * is read all the same as far as that goes.
 * @throws {StoreError} when there is no such file.
 */
export async function* archivedPages(client: ClientBase, directory: string, { partitions, first }: Snapshot, beside: Finding[]): AsyncGenerator<Page> {
  for (const partition of partitions) {
    if (partition.last >= first) break;
    const manifest = Manifest.safeParse(partition.manifest);
    if (!manifest.success) throw new StoreError(`the manifest of partition ${partition.number} in the database is none, so its file can't be told`);
    const file = path.join(directory, manifest.data.file);
    try {
      await requireFile(directory, manifest.data);
    } catch (error) {
      if (!(error instanceof ArchiveDamageError)) throw error;
      beside.push({ position: partition.first, table: manifest.data.file, problem: 'it is not the file that was recorded' });
    }
    let after = partition.first - 1;
    try {
      for await (const { rows } of piecesOf(file)) {
        const upTo = Math.max(after, ...rows.slice(-1).map(({ position }) => position));
        yield { after, upTo, rows, batches: await readBatches(client, after, upTo), checkpoints: await readCheckpointRows(client, after, upTo), unreadable: [] };
        after = upTo;
      }
    } catch (error) {
      if (!(error instanceof ArchiveDamageError)) throw error;
      beside.push({ position: after + 1, table: manifest.data.file, problem: 'it can be read to here and no further' });
    }
    const { last } = partition;
    if (after < last) yield { after, upTo: last, rows: [], batches: await readBatches(client, after, last), checkpoints: await readCheckpointRows(client, after, last), unreadable: [] };
  }
}
