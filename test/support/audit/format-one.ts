import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { ClientBase } from 'pg';
import { connectAs, type Store } from '#db/postgres/connect.ts';
import { SCHEMA_FOLDER } from '#db/schema/files.ts';
import { migrate } from '#db/schema/migrate.ts';
import { createDatabase, type TestDatabase } from '../database.ts';

/** A log in the first format of leaves, which covers fewer columns, written by calls that know only those. */

/** A database that appends in format 1. `migrate` brings it up to date. */
export async function createFirstVersion(): Promise<TestDatabase> {
  const database = await createDatabase();
  await migrateToFirstVersion(database);
  return database;
}

/** Gives a database the append function of format 1. */
export async function migrateToFirstVersion(store: Store): Promise<void> {
  await migrate(store);
  const client = await connectAs(store, 'owner');
  try {
    await client.query(await firstAppend());
    await client.query("delete from daybook_migrations.definition where name = 'functions/log/append'");
  } finally {
    await client.end();
  }
}

/** Today's function without the columns that came later, in the leaf and in the batch's format. */
async function firstAppend(): Promise<string> {
  const text = await readFile(path.join(SCHEMA_FOLDER, 'functions/log/append.sql'), 'utf8');
  const first = text
    .replace(/,\s+terms_position,[^)]*\)::text/, ')::text')
    .replaceAll(/(_at|_at_us), 2\b/g, '$1, 1');
  if (first.length > text.length - 80) throw new Error('functions/log/append.sql has changed');
  return first;
}

/** Appends a call that settled and one that was abandoned, as a server of the first version does. */
export async function appendFirstRequests(
  client: ClientBase,
  instance: number,
  batchNo: number,
): Promise<void> {
  await client.query(
    `select daybook.append(0::smallint, $1, $2, array[100, 101, 102]::smallint[],
      array['01900000-0000-7000-8000-000000000001',
        '01900000-0000-7000-8000-000000000001', '01900000-0000-7000-8000-000000000002']::uuid[],
      array['Account1', 'Account1', 'Account2'], array['Key00001', 'Key00001',
        'Key00002'], array['a "b", \\c', 'a "b", \\c', ''],
      array[null, 'one', null], array[true, null, null], array[40, null, null], array[500,
        null, 9007199254740991],
      array[3, null, null]::smallint[], array[null, 200, null]::smallint[], array[null, 1, 9]::smallint[],
      array[null, 1, 3]::smallint[], array[null, 10, null]::integer[], array[null, 4, null]::integer[],
      array[null, 20, null]::integer[], array[null, 0, null]::integer[], array[null, 1, null]::smallint[],
      array[null, 5, null]::integer[], array[null, 50, null]::integer[])`,
    [instance, batchNo],
  );
}

/** Appends three events of an account, the first of which takes `version` in its stream. */
export async function appendFirstControls(
  client: ClientBase,
  instance: number,
  batchNo: number,
  version: number,
): Promise<void> {
  await client.query(
    `select daybook.append(0::smallint, $1, $2, array[1, 2, 3]::smallint[],
      null, array_fill('Account1'::text, array[3]),
      null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
      array_fill('account/Account1'::text, array[3]), array[$3::integer, $3 + 1, $3 + 2],
      array['{"name":"caf\\u00e9","actor":"command-line"}',
        '{"actor":"command-line"}', '{"actor":"command-line"}'], null)`,
    [instance, batchNo, version],
  );
}
