import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { cp, readdir, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as wait } from 'node:timers/promises';
import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { restorePartition } from '#db/archive/restore.ts';
import { takeBackup } from '#db/backup/backup.ts';
import { connectBatch } from '#db/backup/connect.ts';
import { copyOut } from '#db/backup/copy.ts';
import { fileOf } from '#db/backup/manifest.ts';
import { PROJECTION_TABLES, BASE_TABLES, EXCLUDED_TABLES, EXCLUDED_SCHEMAS } from '#db/backup/tables.ts';
import { retireInstance } from '#db/instances/instance.ts';
import { checkProjections, rebuildProjections } from '#db/backup/projections.ts';
import { findRestoreGap } from '#db/backup/restore-gap.ts';
import { restoreBackup } from '#db/backup/restore.ts';
import { verifyBackup } from '#db/backup/verify.ts';
import { type Store, withTimeout } from '#db/postgres/connect.ts';
import { makePartitions } from '#db/log/partitions.ts';
import { SCHEMA_FOLDER } from '#db/schema/files.ts';
import { PROJECTIONS } from '#db/projections/projections.ts';
import { migrate } from '#db/schema/migrate.ts';
import { growNodes } from '#db/tlog/build-tree.ts';
import { verifyChain } from '../../support/audit/verify-chain.ts';
import { backUp, rowsOf } from '../../support/audit/backup-fixture.ts';
import { createDatabase, createEmptyDatabase, type TestDatabase } from '../../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../../support/directory.ts';
import { ROOT } from '../../layout/source.ts';
import { anyCorrection } from '../../support/log/arbitrary-request.ts';
import { accepted, connectAs, openWriter } from '../../support/log/log-writer.ts';
import { createPartitionedLog, type PartitionedLog } from '../../support/audit/partitioned-log.ts';
import { projectAll } from '../../support/projections/projected.ts';

/** A restored backup is equal to the original, and every table is covered. */

let directory: string;
let log: PartitionedLog;
let owner: Awaited<ReturnType<typeof connectAs>>;
beforeAll(async () => {
  directory = await makeTestDirectory();
  log = await createPartitionedLog(50, 12);
  owner = await connectAs(log.database, 'owner');
});
afterAll(async () => {
  await owner?.end();
  await log?.[Symbol.asyncDispose]();
  await removeTestDirectory(directory);
});

test('backup: every table is included, or excluded explicitly', async () => {
  const { rows } = await owner.query<{ name: string }>(
    `select n.nspname || '.' || c.relname as name from pg_class c join pg_namespace n
      on n.oid = c.relnamespace
      where c.relkind in ('r', 'p') and not c.relispartition and n.nspname !~ '^pg_|^information_schema$'
        and not n.nspname = any($1) and c.relname <> all(select name from daybook.log_partition) order by 1`,
    [EXCLUDED_SCHEMAS],
  );
  const decided = [...BASE_TABLES, ...PROJECTION_TABLES, ...EXCLUDED_TABLES.keys()];
  expect(rows.map(({ name }) => name)).toEqual(decided.toSorted());
  expect(new Set(decided).size).toBe(decided.length);
});

/** Appends a correction of some request. */
async function correctOne(database: TestDatabase): Promise<void> {
  await using writer = await openWriter(database);
  await writer.correct(fc.sample(anyCorrection, { numRuns: 1, seed: 1 }));
  await retireInstance(writer.client, writer.instance);
}

async function requireSame(from: TestDatabase, to: TestDatabase, tables: readonly string[]): Promise<void> {
  const [one, other] = [await from.superuser(), await to.superuser()];
  for (const table of tables) expect(await rowsOf(other, table), table).toEqual(await rowsOf(one, table));
  await Promise.all([one.end(), other.end()]);
}

const EVERYWHERE = `
  insert into daybook.member (id, email, password_hash, role, sealed_totp)
    values ('Member01', E'o''hara\\\\@example.com', E'$argon2id$\\t\\n\\\\N', 'auditor', '\\x00ff5c0a');
  insert into daybook.identity (issuer, subject, provider, member)
    values ('https://login.example.com', E'o''hara\\\\|1', 'acme', 'Member01');
  insert into daybook.provider_secret values ('acme', '\\x005c0a');
  insert into daybook.session (id, member, digest, expires_at, browser, network)
    values ('Session1', 'Member01', sha256('s'), now() + interval '1 day', 'b', 'n');
  insert into daybook.link (id, kind, digest, expires_at)
    values ('Link0001', 'setup', sha256('l'), now() + interval '1 day');
  insert into daybook.alert_destination (id, kind, label, sealed_target, alerts, allow_private)
    values ('Destina1', 'webhook', 'https://example.com', '\\x5c', '{"quota","a b"}', false);
  insert into daybook.alert (topic, ordinal, kind, state, details)
    values ('t', 1, 'quota', 'raised', '{"a": "\\\\ \\" \\n"}');
  insert into daybook.alert_delivery (destination, alert, state, ended_at)
    select 'Destina1', id, 'delivered', now() from daybook.alert;
  insert into daybook.alert_attempt (delivery, status, duration_ms) select id, 200, 5
    from daybook.alert_delivery;
  insert into daybook.alert_look values ('quota', 7);
  insert into daybook.secret_use values ('Key00001', 'abcd', now());
  insert into daybook.credential (id, upstream, sealed_secret, wrapped_key, master_key, fingerprint)
    values ('Cred0001', 'one', '\\x005c0a', '\\xff', '0123456789abcdef', sha256('f'));
  insert into daybook.checkpoint (epoch, size, note) values (1, 0, 'none');
  insert into daybook.cosignature (epoch, size, witness, line) values (1, 0, 'w', E'— w x\\n');
  insert into daybook.attribution_key (account, generation, sealed, master_key, destroyed_at)
    values ('Account1', 1, '\\x00ff5c0a', '0123456789abcdef', null), ('Account2', 2, null, null, now());
  insert into daybook.attribution_erased (account, kind, pseudonym)
    values ('Account1', 1, 'Pseudonym0000001');
  insert into daybook.allowance (cap, ceiling, terms_position, since_terms, reset_position, window_start,
    meter, window_kind, subject) values (5, 5, 0, 0, 0, 0, 1, 1, 'account/a');
  insert into daybook.lease (allowance, instance, position, since_terms, closed)
    select id, 1, 0, 0, true from daybook.allowance;`;

test('a backup that is ended by SIGTERM leaves no files', async () => {
  const target = path.join(directory, 'interrupted');
  await owner.query('begin; lock table daybook.install in access exclusive mode');
  const child = spawn(process.execPath, ['server/cli.ts', 'backup', '--to', target], {
    cwd: ROOT,
    env: { ...process.env, DATABASE_URL: log.database.url },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const said = text(child.stderr);
  const ended = once(child, 'exit');
  try {
    await expect.poll(() => existsSync(`${target}.partial`)).toBe(true);
    child.kill('SIGTERM');
    expect([await ended, await said]).toEqual([
      [1, null],
      'daybook: the backup was interrupted; its files were removed\n',
    ]);
    expect(existsSync(`${target}.partial`)).toBe(false);
  } finally {
    child.kill('SIGKILL');
    await owner.query('rollback');
  }
});

test('restore: the database is equal row by row, with its triggers, and continues', async () => {
  await log.append(130);
  await projectAll(log.database);
  await owner.query(EVERYWHERE);
  await growNodes(owner, 130);
  const { directory: backup, manifest } = await backUp(log.database, directory);
  expect(manifest).toMatchObject({
    damage: null,
    head: { position: expect.any(Number) as number },
    partitions: Array.from({ length: manifest.partitions.length }, (_, at) => at),
  });
  await using restored = await createEmptyDatabase();
  expect(await restoreBackup({ store: restored, directory: backup, evenDamaged: false })).toMatchObject({
    abandoned: 0,
    undelivered: 0,
  });
  await requireSame(
    log.database,
    restored,
    BASE_TABLES.filter((table) => table !== 'daybook.projection'),
  );

  const client = await connectAs(restored, 'owner');
  for (const table of EXCLUDED_TABLES.keys()) expect(await rowsOf(client, table), table).toEqual([]);
  for (const change of [
    'update daybook.log_000000 set shard = 1',
    'delete from daybook.log',
    'truncate daybook.log_000001',
    'truncate daybook.log',
    'update daybook.log_batch set format = 2',
  ]) {
    await expect(client.query(change), change).rejects.toThrow('append-only');
  }
  // Sequences continue, and so do the log, its chain and its partitions.
  expect(await makePartitions(client)).toBe(0);
  const { rows: before } = await client.query<{ id: number }>('select max(id) as id from daybook.instance');
  {
    await using writer = await openWriter(restored);
    expect(writer.instance).toBe((before[0]?.id as number) + 1);
    expect(await writer.append(Array.from({ length: 200 }, () => accepted()))).toBe(
      (manifest.head?.position as number) + 200,
    );
  }
  expect(await verifyChain(client)).toBeNull();
  expect(
    (
      await client.query(
        'insert into daybook.allowance (cap, ceiling, terms_position, since_terms, reset_position, ' +
          'window_start, meter, window_kind, subject) ' +
          "values (5, 5, 0, 0, 0, 0, 1, 1, 'account/b') returning id",
      )
    ).rows,
  ).toEqual([{ id: '2' }]);
  await client.end();
});

test('backup: files are private to their owner, and nothing is overwritten', async () => {
  const { directory: backup } = await backUp(log.database, directory);
  expect((await stat(backup)).mode & 0o777).toBe(0o700);
  for (const name of await readdir(backup))
    expect((await stat(path.join(backup, name))).mode & 0o777, name).toBe(0o600);
  await expect(takeBackup({ store: log.database, directory: backup })).rejects.toThrow('already exists');
  await expect(restoreBackup({ store: log.database, directory: backup, evenDamaged: false })).rejects.toThrow(
    'already has a log',
  );
});

test('backup and restore: no step has the timeouts of an interactive session', async () => {
  const impatient = (store: Store): Store => ({
    config: (role) => ({ ...withTimeout(store.config(role), 1), connectionTimeoutMillis: 1 }),
  });
  await using source = await createDatabase();
  await using writer = await openWriter(source);
  await writer.append([accepted()]);
  const { directory: backup, manifest } = await backUp(impatient(source), directory);
  await using restored = await createEmptyDatabase();
  const store = impatient(restored);
  expect(await restoreBackup({ store, directory: backup, evenDamaged: false })).toMatchObject({
    abandoned: 1,
  });
  expect(await rebuildProjections(store)).toBe(0);
  expect(await checkProjections(store)).toHaveLength(PROJECTIONS.length);
  expect(await findRestoreGap(store, directory, manifest)).toBeNull();
});

test('backup: is one consistent snapshot while the log grows', async () => {
  await using database = await createDatabase();
  await using writer = await openWriter(database);
  let ended = false;
  const busy = (async () => {
    // Without a pause the log would grow faster than a backup reads it.
    for (; !ended; await wait(2)) await writer.append(Array.from({ length: 7 }, () => accepted()));
  })();
  try {
    for (let round = 0; round < 3; round++) {
      const { directory: backup, manifest } = await backUp(database, directory);
      const { damage } = await verifyBackup(backup);
      expect([damage, manifest.damage]).toEqual([null, null]);
      expect(fileOf(manifest, 'daybook.log')?.rows).toBe(fileOf(manifest, 'daybook.log_batch')?.rows);
      expect((fileOf(manifest, 'daybook.log')?.rows ?? 0) * 7).toBe(manifest.head?.position ?? 0);
    }
  } finally {
    ended = true;
    await busy;
  }
});

test('backup: with archived partitions the projections are included, and the rest is verified', async () => {
  await using archived = await createPartitionedLog(50, 12);
  // Batches of all sizes, one of which would be larger than a partition.
  await archived.append(260, [3, 1, 70, 8]);
  await correctOne(archived.database);
  await archived.append(300);
  await projectAll(archived.database);
  const source = await connectAs(archived.database, 'owner');
  await growNodes(source, 200);
  await source.end();
  expect(await archived.archive({ drop: true })).not.toMatchObject({ dropped: [] });
  const { directory: backup, manifest } = await backUp(archived.database, directory);
  expect(manifest.damage).toBeNull();
  expect(manifest.files.find(({ table }) => table === 'projection.request')?.rows).toBeGreaterThan(100);
  await using restored = await createDatabase();
  await restoreBackup({ store: restored, directory: backup, evenDamaged: false });
  await requireSame(archived.database, restored, [...BASE_TABLES, ...PROJECTION_TABLES]);
  // The worker continues from there.
  await using writer = await openWriter(restored);
  await writer.append([accepted()]);
  await projectAll(restored);
});

test('backup: archived partitions are verified by their manifests, beside a restored one', async () => {
  await using archived = await createPartitionedLog(50, 12);
  await archived.fill(260);
  expect((await archived.archive({ drop: true }))?.dropped.length).toBeGreaterThan(2);
  const [, second] = await archived.files();
  await restorePartition(() => connectAs(archived.database, 'owner'), second as string);
  const { manifest } = await backUp(archived.database, directory);
  expect(manifest.damage).toBeNull();
  expect(manifest.partitions[0]).toBe(1);
  const client = await archived.database.superuser();
  for (const [change, position, problem] of [
    [
      `update daybook.control_event set line = replace(line, 'actor', 'agent')
        where position = (select min(position) from daybook.control_event)`,
      1,
      'control events do not match',
    ],
    [
      `update daybook.control_event set line = replace(line, 'actor', 'agent')
        where position = (select min(position) from daybook.control_event where position >= 50)`,
      expect.toSatisfy((found: number) => found >= 50 && found < 100) as number,
      'its row in control_event differs from the log',
    ],
    [
      `update daybook.log_batch set chain = sha256('x') where last_position = 49`,
      49,
      'not that of the archive',
    ],
    ['delete from daybook.log_batch where last_position <= 20', 1, 'batch row disagrees'],
  ] as const) {
    await client.query(`begin; set local session_replication_role = replica; ${change}; commit`);
    const { damage } = (await backUp(archived.database, directory)).manifest;
    expect(damage, change).toEqual({ position, problem: expect.stringContaining(problem) as string });
    await client.query(`begin; set local session_replication_role = replica;
      update daybook.control_event set line = replace(line, 'agent', 'actor'); commit`);
  }
  await client.end();
});

test('restore: migrates an older backup, and fails on a database that is not empty', async () => {
  // A made-up version that came after a release with today's schema.
  const newer = path.join(directory, 'schema');
  await cp(SCHEMA_FOLDER, newer, { recursive: true });
  await cp(path.join(newer, 'snapshot.sql'), path.join(newer, 'released/0.0.1.sql'));
  await writeFile(
    path.join(newer, 'migrations/0001_note.sql'),
    "alter table daybook.log_batch add column note text not null default 'restored';",
  );
  await using older = await createDatabase();
  {
    await using writer = await openWriter(older);
    await writer.append([accepted(), accepted()]);
  }
  const { directory: backup, manifest } = await backUp(older, directory);
  expect(manifest.migration).toBe('0000_baseline');
  const restore = (store: Store): ReturnType<typeof restoreBackup> =>
    restoreBackup({ store, directory: backup, evenDamaged: false, schemaFolder: newer });
  await using ready = await createDatabase();
  await migrate(ready, newer);
  await expect(restore(ready)).rejects.toThrow('the backup has another schema version (0000_baseline)');
  await using restored = await createEmptyDatabase();
  expect(await restore(restored)).toMatchObject({ abandoned: 2 });
  expect(await migrate(restored, newer)).toEqual([]);
  const client = await connectAs(restored, 'owner');
  expect(await verifyChain(client)).toBeNull();
  const { rows } = await client.query('select distinct note from daybook.log_batch');
  expect(rows).toEqual([{ note: 'restored' }]);
  await client.end();
});

test('copy out: memory stays constant for a table of any size', async () => {
  await using database = await createDatabase();
  const client = await connectBatch(database, 'owner');
  const rows = copyOut(client, "copy (select repeat('x', 1000) from generate_series(1, 20000)) to stdout");
  let bytes = 0;
  let most = 0;
  for await (const piece of rows) {
    bytes += (piece as Buffer).length;
    most = Math.max(most, rows.readableLength);
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect([bytes, rows.rows]).toEqual([20_000 * 1_001, 20_000]);
  expect(most).toBeLessThan(1024 * 1024);
  await client.end();
});

test('copy out: the connection is usable after a row that fills the buffers', async () => {
  await using database = await createDatabase();
  const client = await connectBatch(database, 'owner');
  const rows = copyOut(client, "copy (select repeat('x', 1000000)) to stdout");
  let bytes = 0;
  for await (const piece of rows) bytes += (piece as Buffer).length;
  expect(bytes).toBe(1_000_001);
  expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  await client.end();
});
