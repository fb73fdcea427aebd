import path from 'node:path';
import type { Client } from 'pg';
import { takeBackup } from '#db/backup/backup.ts';
import type { Manifest } from '#db/backup/manifest.ts';
import type { Store } from '#db/postgres/connect.ts';
import { publicId } from '#db/ids.ts';

/** A backup below a directory, which the caller removes. */
export type TestBackup = { directory: string; manifest: Manifest };

export async function backUp(store: Store, below: string): Promise<TestBackup> {
  const directory = path.join(below, `backup-${publicId()}`);
  const manifest = await takeBackup({ store, directory });
  return { directory, manifest };
}

/** The rows of a table as text, in order. */
export async function rowsOf(client: Client, table: string): Promise<string[]> {
  const { rows } = await client.query<{ row: string }>(`select t::text as row from ${table} t order by 1`);
  return rows.map(({ row }) => row);
}
