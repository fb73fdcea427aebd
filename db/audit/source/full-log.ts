import path from 'node:path';
import { sql } from 'kysely';
import type { Client } from 'pg';
import { fileSource } from '#db/audit/source/files.ts';
import { databaseSource, type Source } from '#db/audit/source/source.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { db, rowOf, rowsOf } from '#db/schema/query.ts';
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
  const install = await rowOf(client, db.selectFrom('daybook.install').select('log_id'));
  if (files.logId !== install?.log_id)
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
  const query = db
    .selectFrom('daybook.log_partition')
    .select(sql<string>`manifest->>'file'`.as('file'))
    .where('archived_at', 'is not', null)
    .where(sql<boolean>`not daybook.is_attached(name)`)
    .orderBy('number');
  return (await rowsOf(client, query)).map(({ file }) => file);
}
