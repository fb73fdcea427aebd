import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { migrate } from '#db/schema/migrate.ts';
import { ask, createEmptyDatabase } from '../support/database.ts';
import { createFirstVersion } from '../support/audit/format-one.ts';

const SHIPPED = path.join(import.meta.dirname, '../../db/migrations');

/** A copy of the shipped migrations, for a test to add its own to. */
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'daybook-migrations-'));
  await cp(SHIPPED, folder, { recursive: true });
});
afterEach(() => rm(folder, { recursive: true }));

async function add(name: string, text: string): Promise<void> {
  await writeFile(path.join(folder, `${name}.sql`), text);
}

test('an empty database gets every migration, in order, and a second run changes nothing', async () => {
  await using database = await createEmptyDatabase();
  const applied = await migrate(database);
  expect(applied[0]).toBe('0001_roles');
  expect(applied).toEqual(applied.toSorted());
  expect(await ask(database.config('auditor'), 'select count(*) from daybook.log')).toBe('0');
  expect(await migrate(database)).toEqual([]);
});

test('a column that a later version added is in every partition, those made before and those made after', async () => {
  await using database = await createFirstVersion();
  expect(await migrate(database)).toEqual(expect.arrayContaining(['0004_admission']));
  await ask(database.config('owner'), 'select daybook.create_partitions(3)');
  const client = await database.superuser();
  try {
    const { rows } = await client.query<{ name: string; columns: string }>(
      `select attrelid::regclass::text as name,
          string_agg(concat_ws(' ', attname, atttypid::regtype, attcollation::regcollation, attnotnull), ', ' order by attnum) as columns
        from pg_attribute
        where attnum > 0 and attrelid in (select 'daybook.log'::regclass union select inhrelid from pg_inherits where inhparent = 'daybook.log'::regclass)
        group by attrelid order by name`,
    );
    expect(rows.map(({ name }) => name)).toEqual([
      'daybook.log',
      'daybook.log_000000',
      'daybook.log_000001',
      'daybook.log_000002',
      'daybook.log_000003',
    ]);
    expect(new Set(rows.map(({ columns }) => columns)).size).toBe(1);
    expect(rows[0]?.columns).toContain('refusal text "C" f');
  } finally {
    await client.end();
  }
});

test('of four starters at once one migrates, and the others find it done', async () => {
  await using reference = await createEmptyDatabase();
  const everything = await migrate(reference);
  await using database = await createEmptyDatabase();
  const applied = await Promise.all([1, 2, 3, 4].map(() => migrate(database)));
  expect(applied.flat()).toEqual(everything);
  expect(applied.filter((names) => names.length > 0)).toHaveLength(1);
});

test('a failing migration is named with its line, and nothing of the run stays', async () => {
  await using database = await createEmptyDatabase();
  await add('9000_good', 'create table daybook.kept (id integer);\n');
  await add(
    '9001_broken',
    '-- A comment.\ncreate table daybook.gone (id integer);\nselect no_such_column;\n',
  );
  await expect(migrate(database, folder)).rejects.toThrow(
    /^migration 9001_broken failed, line 3: .*no_such_column/,
  );
  expect(await ask(database.config('owner'), `select to_regnamespace('daybook')`)).toBeNull();
  await add('9001_broken', 'select 1;\n');
  expect(await migrate(database, folder)).toEqual(
    expect.arrayContaining(['0001_roles', '9000_good', '9001_broken']),
  );
});

test('a database that a newer version has migrated is refused', async () => {
  await using database = await createEmptyDatabase();
  await add('9000_newer', 'create table daybook.newer (id integer);\n');
  await migrate(database, folder);
  await expect(migrate(database)).rejects.toThrow(/^the database cannot be migrated: .*9000_newer/);
});

test('a migration gives up rather than stall a running server behind a lock', async () => {
  await using database = await createEmptyDatabase();
  await migrate(database, folder);
  await add('9000_locking', 'alter table daybook.log add column novel text;\n');
  const reader = await database.superuser();
  try {
    await reader.query('begin; select from daybook.log');
    await expect(migrate(database, folder)).rejects.toThrow(/^migration 9000_locking failed: .*lock timeout/);
  } finally {
    await reader.end();
  }
  expect(await migrate(database, folder)).toEqual(['9000_locking']);
});
