import { expect, test } from 'vitest';
import { openStore } from '#db/postgres/store.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { ask, createDatabase, type TestDatabase } from '../support/database.ts';

/** Opens the database as a server does at its start. */
const open = (url: string) => openStore({ DATABASE_URL: url, DAYBOOK_DATA: 'unused' }, () => {});

/** The address of sessions that find the names of this schema before those of PostgreSQL. */
function shadowedBy(url: string, schema: string): string {
  return `${url}&options=${encodeURIComponent(`-c search_path=${schema},pg_catalog`)}`;
}

/** A database whose sessions get the answers of another product or version, over a real connection. */
async function answering(database: TestDatabase, sql: string): Promise<string> {
  await ask(database.config('owner'), 'create schema shadow');
  await ask(database.config('owner'), sql);
  return shadowedBy(database.url, 'shadow');
}

test('a PostgreSQL is accepted', async () => {
  await using database = await createDatabase();
  await (await open(database.url)).close();
});

test.each([
  [
    'gives one advisory lock to two sessions',
    `create function shadow.pg_try_advisory_xact_lock(bigint) returns boolean language sql as 'select true'`,
    /lacks a part of PostgreSQL: it grants one advisory lock to two sessions.*use PostgreSQL 15 or newer/,
  ],
  [
    'refuses every advisory lock',
    `create function shadow.pg_try_advisory_xact_lock(bigint) returns boolean language sql as 'select false'`,
    /refuses a free advisory lock/,
  ],
  [
    'reports another product',
    `create function shadow.version() returns text language sql as $$select 'CockroachDB CCL v25.2.1'$$`,
    /calls itself "CockroachDB CCL v25.2.1"/,
  ],
  [
    'is older than PostgreSQL 15',
    `create view shadow.pg_settings as select name, case name when 'server_version_num' then '140019'
      when 'server_version' then '14.19' else setting end as setting from pg_catalog.pg_settings`,
    /needs PostgreSQL 15 or newer, and this server is 14.19: upgrade it/,
  ],
])('a database that %s is refused at the start', async (_name, sql, message) => {
  await using database = await createDatabase();
  const refusal = await open(await answering(database, sql)).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(StoreError);
  expect((refusal as Error).message).toMatch(message);
});

test('a database without UTF8 is refused at the start, with the statement that creates one', async () => {
  await using database = await createDatabase();
  const name = `${database.name}_ascii`;
  const superuser = await database.superuser();
  try {
    await superuser.query(
      `create database "${name}" owner daybook_owner encoding 'SQL_ASCII' template template0`,
    );
    await expect(open(database.url.replace(database.name, name))).rejects.toThrow(
      /encoding SQL_ASCII, and Daybook needs UTF8: create one with "create database daybook encoding 'UTF8'/,
    );
  } finally {
    await superuser.query(`drop database if exists "${name}" with (force)`);
    await superuser.end();
  }
});
