import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createSchema } from '#db/schema/apply.ts';
import { readSchema, SCHEMA_FOLDER } from '#db/schema/files.ts';
import { migrate } from '#db/schema/migrate.ts';
import { takeSnapshot } from '#db/schema/snapshot.ts';
import { renderTableTypes } from '#db/schema/table-types.ts';
import { ask, createDatabase, createEmptyDatabase, type TestDatabase } from '../support/database.ts';
import { connectAs } from '../support/log/log-writer.ts';

/** A copy of the schema, for a test to make a newer version of. */
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'daybook-schema-'));
  await cp(SCHEMA_FOLDER, folder, { recursive: true });
});
afterEach(() => rm(folder, { recursive: true }));

const write = (name: string, text: string): Promise<void> =>
  writeFile(path.join(folder, `${name}.sql`), text);

/** Replaces a text in one of the copied files. */
async function edit(name: string, from: string, to: string): Promise<void> {
  const text = await readFile(path.join(folder, `${name}.sql`), 'utf8');
  if (!text.includes(from)) throw new Error(`${name}.sql lacks ${from}`);
  await write(name, text.replace(from, to));
}

async function snapshotOf(database: TestDatabase): Promise<string> {
  const client = await connectAs(database, 'owner');
  try {
    return await takeSnapshot(client, (await readSchema()).version);
  } finally {
    await client.end();
  }
}

describe('a new database', () => {
  test('gets the schema of the checked-in snapshot; "npm run schema" writes it', async () => {
    await using database = await createEmptyDatabase();
    expect(await migrate(database)).toEqual(['0000_baseline']);
    const snapshot = await readFile(path.join(SCHEMA_FOLDER, 'snapshot.sql'), 'utf8');
    expect(await snapshotOf(database)).toBe(snapshot);
    expect(await ask(database.config('auditor'), 'select count(*) from daybook.log')).toBe('0');
    expect(await migrate(database)).toEqual([]);
  });

  test('has the tables of the checked-in types; "npm run schema" writes them', async () => {
    await using database = await createDatabase();
    const client = await connectAs(database, 'owner');
    const types = await readFile(path.join(SCHEMA_FOLDER, 'tables.ts'), 'utf8');
    expect(await renderTableTypes(client)).toBe(types);
    await client.end();
  });

  test('counts as having had the migrations that its tables need no more', async () => {
    await using database = await createEmptyDatabase();
    await write('migrations/0001_broken', 'select no_such_column;\n');
    expect(await migrate(database, folder)).toEqual(['0000_baseline', '0001_broken']);
    expect(await migrate(database, folder)).toEqual([]);
  });

  test('is migrated by one of four concurrent starters', async () => {
    await using database = await createEmptyDatabase();
    const applied = await Promise.all([1, 2, 3, 4].map(() => migrate(database)));
    expect(applied.flat()).toEqual(['0000_baseline']);
  });

  test('stays empty if a file fails, and the error names the file and the line', async () => {
    await using database = await createEmptyDatabase();
    await edit('functions/log/head', 'begin atomic\n', 'begin atomic\n  select no_such_column;\n');
    const line = (await readFile(path.join(folder, 'functions/log/head.sql'), 'utf8'))
      .split('\n')
      .findIndex((text) => text.includes('no_such_column'));
    await expect(migrate(database, folder)).rejects.toThrow(
      new RegExp(`^migration failed in functions/log/head.sql, line ${line + 1}: .*no_such_column`),
    );
    expect(await ask(database.config('owner'), `select to_regnamespace('daybook')`)).toBeNull();
    expect(await migrate(database)).toEqual(['0000_baseline']);
  });

  test('needs every file of tables to be listed, since their order matters', async () => {
    await write('tables/unlisted', 'create table daybook.unlisted (id integer);\n');
    await expect(readSchema(folder)).rejects.toThrow("doesn't list the tables of unlisted");
  });

  test('finds each function in the file of its name', async () => {
    const { functions } = await readSchema();
    const defined = functions.map(
      ({ text }) => /create or replace function daybook\.(\w+)\(/.exec(text)?.[1],
    );
    expect(functions.map(({ name }) => path.basename(name))).toEqual(defined);
  });
});

describe('an existing database', () => {
  test('gets missing migrations and changed functions, and keeps the rest', async () => {
    await using database = await createDatabase();
    await write('migrations/0001_kept', 'create table daybook.kept (id integer);\n');
    await write('migrations/0002_grown', 'alter table daybook.kept add column name text;\n');
    await edit('functions/log/head', 'begin atomic\n', 'begin atomic\n  select 1;\n');
    await edit(
      'privileges',
      '-- Limits.\n',
      '-- Limits.\ngrant select on daybook.kept to daybook_auditor;\n',
    );
    expect(await migrate(database, folder)).toEqual([
      '0001_kept',
      '0002_grown',
      'functions/log/head',
      'privileges',
    ]);
    expect(await ask(database.config('auditor'), 'select count(name) from daybook.kept')).toBe('0');
    expect(await migrate(database, folder)).toEqual([]);
  });

  test('keeps a new function from public, whether or not the privileges changed', async () => {
    await using database = await createDatabase();
    await write(
      'functions/log/novel',
      'create or replace function daybook.novel() returns integer language sql return 1;\n',
    );
    expect(await migrate(database, folder)).toEqual(['functions/log/novel']);
    await expect(ask(database.config('auditor'), 'select daybook.novel()')).rejects.toThrow(
      'permission denied',
    );
  });

  test('has a new column of the log in every partition, earlier and later ones', async () => {
    await using database = await createDatabase();
    await write('migrations/0001_novel', 'alter table daybook.log add column novel text collate "C";\n');
    expect(await migrate(database, folder)).toEqual(['0001_novel']);
    await ask(database.config('owner'), 'select daybook.create_partitions(3)');
    const client = await database.superuser();
    try {
      const { rows } = await client.query<{ name: string; columns: string }>(
        `select attrelid::regclass::text as name,
            string_agg(concat_ws(' ', attname, atttypid::regtype, attcollation::regcollation, attnotnull),
              ', ' order by attnum) as columns
          from pg_attribute
          where attnum > 0 and attrelid in (select 'daybook.log'::regclass
            union select inhrelid from pg_inherits where inhparent = 'daybook.log'::regclass)
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
      expect(rows[0]?.columns).toContain('novel text "C" f');
    } finally {
      await client.end();
    }
  });

  test('rolls back a run in which a migration fails, and the error names the file and the line', async () => {
    await using database = await createDatabase();
    await write('migrations/0001_valid', 'create table daybook.kept (id integer);\n');
    await write('migrations/0002_broken', '-- A comment.\nselect 1;\nselect no_such_column;\n');
    await expect(migrate(database, folder)).rejects.toThrow(
      /^migration failed in migrations\/0002_broken.sql, line 3: .*no_such_column/,
    );
    expect(await ask(database.config('owner'), `select to_regclass('daybook.kept')`)).toBeNull();
    await write('migrations/0002_broken', 'select 1;\n');
    expect(await migrate(database, folder)).toEqual(['0001_valid', '0002_broken']);
  });

  describe('that the next release has migrated', () => {
    /** Makes the schema of a release after this one, and migrates a database to it. */
    async function migrateNext(database: TestDatabase, release: string, previous?: string): Promise<void> {
      const { version } = await readSchema();
      await cp(
        path.join(SCHEMA_FOLDER, 'snapshot.sql'),
        path.join(folder, `released/${previous ?? version}.sql`),
      );
      await write('migrations/9000_newer', 'create table daybook.newer (id integer);\n');
      await edit('functions/log/head', 'begin atomic\n', 'begin atomic\n  select 1;\n');
      expect(await migrate(database, folder, release)).toEqual(['9000_newer', 'functions/log/head']);
    }

    test('is accepted and left as it is: its newer functions stay', async () => {
      await using database = await createDatabase();
      await migrateNext(database, '1000.0.0');
      const after = await snapshotOf(database);
      expect(await migrate(database)).toEqual([]);
      expect(await snapshotOf(database)).toBe(after);
      expect(await migrate(database, folder, '1000.0.0')).toEqual([]);
    });

    test('is refused by a release before the one that it serves beside', async () => {
      await using database = await createDatabase();
      await migrateNext(database, '1000.1.0', '1000.0.0');
      await expect(migrate(database)).rejects.toThrow(
        'the database was migrated by a newer version (1000.1.0), which does not serve beside this one ' +
          `(${(await readSchema()).version}): run 1000.0.0 or newer`,
      );
    });

    test('moves the window of versions even if the release changes nothing in the database', async () => {
      await using database = await createDatabase();
      const { version } = await readSchema();
      await cp(path.join(SCHEMA_FOLDER, 'snapshot.sql'), path.join(folder, `released/${version}.sql`));
      expect(await migrate(database, folder, '1000.0.0')).toEqual([]);
      expect(await migrate(database)).toEqual([]);
      await cp(path.join(SCHEMA_FOLDER, 'snapshot.sql'), path.join(folder, 'released/1000.0.0.sql'));
      expect(await migrate(database, folder, '1000.1.0')).toEqual([]);
      await expect(migrate(database)).rejects.toThrow('newer version (1000.1.0)');
    });
  });

  test('is refused if another branch of this version has migrated it', async () => {
    await using database = await createDatabase();
    await write('migrations/9000_other', 'create table daybook.newer (id integer);\n');
    await migrate(database, folder);
    await expect(migrate(database)).rejects.toThrow('newer version (9000_other)');
  });

  test('is left alone by a migration that would wait for a lock for long', async () => {
    await using database = await createDatabase();
    await write('migrations/0001_locking', 'alter table daybook.log add column novel text;\n');
    const reader = await database.superuser();
    try {
      await reader.query('begin; select from daybook.log');
      await expect(migrate(database, folder)).rejects.toThrow(
        /^migration failed in migrations\/0001_locking.sql: .*lock timeout/,
      );
    } finally {
      await reader.end();
    }
    expect(await migrate(database, folder)).toEqual(['0001_locking']);
  });
});

describe('an upgrade from a release', () => {
  /** Upgrades a database of a released version, and compares it with a new one. */
  async function upgrade(schemaFolder: string, version: string): Promise<void> {
    const schema = await readSchema(schemaFolder);
    const release = schema.released.find(({ file }) => file.name === `released/${version}`);
    await using upgraded = await createEmptyDatabase();
    const client = await connectAs(upgraded, 'owner');
    await createSchema(client, schema, release?.migration ?? '');
    await client.end();
    await migrate(upgraded, schemaFolder);
    expect(await migrate(upgraded, schemaFolder)).toEqual([]);
    await using fresh = await createEmptyDatabase();
    await migrate(fresh, schemaFolder);
    expect(await snapshotOf(upgraded)).toBe(await snapshotOf(fresh));
  }

  test('gives the schema of a new database, for every released version', async () => {
    // None before the first release.
    for (const file of await readdir(path.join(SCHEMA_FOLDER, 'released')))
      if (file.endsWith('.sql')) await upgrade(SCHEMA_FOLDER, path.basename(file, '.sql'));
  });

  test('gives the schema of a new database, for a made-up release with a migration after it', async () => {
    await cp(path.join(SCHEMA_FOLDER, 'snapshot.sql'), path.join(folder, 'released/0.0.9.sql'));
    const column = `  novel text collate "C" not null default 'some' check (novel <> '')`;
    await write('migrations/0001_novel', `alter table daybook.alert_look add column\n${column};\n`);
    await edit('tables/alerts', '  position bigint not null\n', `  position bigint not null,\n${column}\n`);
    await edit('functions/log/head', 'begin atomic\n', 'begin atomic\n  select 1;\n');
    await upgrade(folder, '0.0.9');
  });

  test('fails the comparison if the tables and the migration disagree', async () => {
    await cp(path.join(SCHEMA_FOLDER, 'snapshot.sql'), path.join(folder, 'released/0.0.9.sql'));
    await write('migrations/0001_novel', 'alter table daybook.alert_look add column novel text;\n');
    await expect(upgrade(folder, '0.0.9')).rejects.toThrow('to be');
  });
});
