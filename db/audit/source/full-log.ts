import path from 'node:path';
import type { Client } from 'pg';
import { fileSource } from '#db/audit/source/files.ts';
import { databaseSource, type Source } from '#db/audit/source/source.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { ArchivedError } from '#db/log/read.ts';

/**
 * The log from its first position: archived partitions from their files, and the rest from the database.
 * @throws {StoreError} when a file is missing.
 * @throws {ArchivedError} when a partition is archived and no archive directory is given.
 */
export async function fullLogSource(client: Client, archiveDir: string | undefined): Promise<Source> {
  const live = await databaseSource(client);
  if (live.first === 1) return live;
  const archived = await archivedFiles(client);
  if (archiveDir === undefined) throw new ArchivedError(live.first, archived);
  const files = await fileSource(archived.map((file) => path.join(archiveDir, file)));
  const { rows } = await client.query<{ log_id: string }>('select log_id from daybook.install');
  if (files.logId !== rows[0]?.log_id)
    throw new StoreError(`the files in ${archiveDir} are of another log than the database's`);
  if (files.head + 1 !== live.first)
    throw new StoreError(
      `the files in ${archiveDir} end at position ${files.head}, and the log begins at ${live.first}`,
    );
  return {
    first: files.first,
    head: live.head,
    // The batches of archived events stay in the database.
    seek: live.seek,
    isLive: live.isLive,
    async *read({ after, upTo }) {
      if (after < files.head) yield* files.read({ after, upTo: Math.min(upTo, files.head) });
      if (upTo > files.head) yield* live.read({ after: Math.max(after, files.head), upTo });
    },
  };
}

async function archivedFiles(client: Client): Promise<string[]> {
  const { rows } = await client.query<{ file: string }>(
    `select manifest->>'file' as file from daybook.log_partition
      where archived_at is not null and not daybook.is_attached(name) order by number`,
  );
  return rows.map(({ file }) => file);
}
