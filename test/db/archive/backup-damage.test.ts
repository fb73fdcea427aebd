import { createHash } from 'node:crypto';
import { cp, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Readable } from 'node:stream';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import * as fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { copyIn } from '#db/backup/copy.ts';
import { BackupDamageError } from '#db/backup/file.ts';
import { fileOf, MANIFEST_FILE, type Manifest, type TableFile } from '#db/backup/manifest.ts';
import { restoreBackup } from '#db/backup/restore.ts';
import { readHead } from '#db/log/read.ts';
import { publishCheckpoint } from '#db/tlog/publish.ts';
import { verifyChain } from '../../support/audit/verify-chain.ts';
import { type TestBackup, backUp } from '../../support/audit/backup-fixture.ts';
import { commandLine } from '../../support/servers/command-line.ts';
import { createDatabase, type TestDatabase } from '../../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../../support/directory.ts';
import { anyCorrection } from '../../support/log/arbitrary-request.ts';
import { accepted, connectAs, openWriter, registered, settled } from '../../support/log/log-writer.ts';

/**
 * Damage in a log, in a backup or after loading it is detected and reported.
 */

let directory: string;
let database: TestDatabase;
let sound: TestBackup;
const { daybook } = commandLine(() => ({
  DAYBOOK_DATA: path.join(directory, 'data'),
  DATABASE_URL: database.url,
  PUBLISH_DIR: path.join(directory, 'published'),
}));

/** Facts of the log, as created below. */
const BATCHES = 6;
const SIZE = 4;

beforeAll(async () => {
  directory = await makeTestDirectory();
  database = await createDatabase();
  await using writer = await openWriter(database);
  for (let batch = 0; batch < BATCHES; batch++) {
    const begun = [accepted(), accepted({ model: 'a\\b "c"' })];
    await writer.append([...begun, ...begun.map((event) => settled(event))]);
  }
  await writer.control([{ event: registered(), version: 1 }]);
  await writer.correct(fc.sample(anyCorrection, { numRuns: 2, seed: 1 }));
  const worker = await connectAs(database, 'worker');
  await publishCheckpoint(worker, {
    keyFile: path.join(directory, 'key'),
    directory: path.join(directory, 'published'),
    writer: { instance: writer.instance, nextBatchNo: () => 99 },
  });
  await worker.end();
  sound = await backUp(database, directory);
});
afterAll(async () => {
  await database?.[Symbol.asyncDispose]();
  await removeTestDirectory(directory);
});

describe('backup of a changed log', () => {
  let to: string;
  beforeEach(async () => {
    to = path.join(directory, 'damaged');
    await rm(to, { recursive: true, force: true });
  });

  test.each([
    [
      'a changed value',
      `update daybook.log set events = replace(events, ',500,', ',501,') where last_position = ${3 * SIZE}`,
      2 * SIZE + 1,
      'hash differs',
    ],
    [
      'a changed time of a batch',
      `update daybook.log set at = at + interval '1 second' where last_position = ${3 * SIZE}`,
      2 * SIZE + 1,
      'hash differs',
    ],
    [
      'a changed instance of a batch row',
      `update daybook.log_batch set instance = instance + 1 where last_position = ${3 * SIZE}`,
      2 * SIZE + 1,
      'batch row disagrees',
    ],
    [
      'an event that is gone',
      String.raw`update daybook.log set events = regexp_replace(events, '\n[^\n]*$', '')
        where last_position = ${3 * SIZE}`,
      3 * SIZE,
      'missing',
    ],
    [
      'the events of a batch that are gone',
      `delete from daybook.log where last_position = ${3 * SIZE}`,
      2 * SIZE + 1,
      'missing',
    ],
    [
      'a batch that is gone',
      `delete from daybook.log_batch where last_position = ${3 * SIZE}`,
      2 * SIZE + 1,
      'batch row disagrees',
    ],
    [
      'a truncated log',
      `delete from daybook.log where last_position > ${4 * SIZE}; delete from daybook.log_batch
        where last_position > ${4 * SIZE}`,
      4 * SIZE + 1,
      'missing: a checkpoint of size',
    ],
    ...[
      `update daybook.control_event set line = replace(line, 'actor', 'agent') where version = 1`,
      `update daybook.control_event set account = 'Account2' where version = 1`,
      'delete from daybook.control_event where position = (select min(position) from daybook.control_event)',
    ].map((change): [string, string, number, string] => [
      `a control event that differs: ${change}`,
      change,
      BATCHES * SIZE + 1,
      'its row in control_event differs from the log',
    ]),
    [
      'a control event that is not in the log',
      `insert into daybook.control_event (position, at, instance, version, shard, type, stream, line)
        values (2, now(), 1, 9, 0, 80, 'log', '(80)')`,
      2,
      'its row in control_event differs from the log',
    ],
    ...[
      'update daybook.correction set cost_nanousd = coalesce(cost_nanousd, 0) + 1',
      `update daybook.correction set reason = reason || '.'`,
      `update daybook.correction set at = at + interval '1 microsecond'`,
      'delete from daybook.correction',
    ].map((change): [string, string, number, string] => [
      `a correction that differs: ${change}`,
      `${change} where position = ${BATCHES * SIZE + 3}`,
      BATCHES * SIZE + 3,
      'its row in correction differs from the log',
    ]),
    ...[2, BATCHES * SIZE + 9].map((position): [string, string, number, string] => [
      `a correction at position ${position} that is not in the log`,
      `create temp table added as select * from daybook.correction limit 1;
        update added set position = ${position}, request = gen_random_uuid();
        insert into daybook.correction select * from added`,
      position,
      'its row in correction differs from the log',
    ]),
    [
      'a rewritten log with a recomputed chain',
      `update daybook.log_batch set chain = sha256(chain)
        where false; update daybook.checkpoint set note = replace(note, split_part(note, e'\\n',
        3), encode(sha256('other'), 'base64'))`,
      BATCHES * SIZE + 4,
      'does not match the signed checkpoint',
    ],
  ])(
    'backup: includes a damaged log and reports its first invalid position: %s',
    async (_what, change, position, problem) => {
      const client = await database.superuser();
      // As only a superuser can. Undone at the end.
      await client.query(
        `create table public.kept_log as table daybook.log; create table public.kept_batch as table
          daybook.log_batch; create table public.kept_checkpoint as table daybook.checkpoint;
        create table public.kept_control as table daybook.control_event;
        create table public.kept_correction as table daybook.correction`,
      );
      await client.query(`set session_replication_role = replica; ${change}`);
      try {
        const { code, stdout, stderr } = await daybook('backup', '--to', to, '--json');
        expect([code, stderr]).toEqual([1, '']);
        expect((JSON.parse(stdout) as Manifest).damage).toEqual({
          position,
          problem: expect.stringContaining(problem) as string,
        });
        expect(await daybook('backup', 'verify', to)).toMatchObject({
          code: 1,
          stdout: expect.stringContaining(`DAMAGED at position ${position}`) as string,
        });
      } finally {
        await client.query(`delete from daybook.log; insert into daybook.log table public.kept_log; delete
          from daybook.log_batch; insert into daybook.log_batch table public.kept_batch;
        delete from daybook.checkpoint; insert into daybook.checkpoint table public.kept_checkpoint;
        delete from daybook.control_event; insert into daybook.control_event table public.kept_control;
        delete from daybook.correction; insert into daybook.correction table public.kept_correction; drop
          table public.kept_log, public.kept_batch, public.kept_checkpoint, public.kept_control,
            public.kept_correction`);
        await client.end();
      }
    },
  );
});

/** A changed copy of the valid backup. */
async function changed(change: (copy: string, manifest: Manifest) => Promise<void>): Promise<string> {
  const copy = path.join(directory, 'changed');
  await rm(copy, { recursive: true, force: true });
  await cp(sound.directory, copy, { recursive: true });
  const manifest = structuredClone(sound.manifest);
  await change(copy, manifest);
  await writeFile(path.join(copy, MANIFEST_FILE), JSON.stringify(manifest));
  return copy;
}

/** Changes the text of a table's file, and adapts the manifest. */
async function rewrite(
  copy: string,
  manifest: Manifest,
  table: string,
  change: (text: string) => string,
): Promise<void> {
  const file = fileOf(manifest, table) as TableFile;
  const text = change(zstdDecompressSync(await readFile(path.join(copy, file.file))).toString());
  const bytes = zstdCompressSync(text);
  await writeFile(path.join(copy, file.file), bytes);
  Object.assign(file, {
    rows: text.split('\n').length - 1,
    bytes: bytes.length,
    sha256: createHash('sha256').update(bytes).digest('hex'),
  });
}

describe('a damaged backup', () => {
  test.each<[string, RegExp, (copy: string, manifest: Manifest) => Promise<void>]>([
    [
      'a flipped bit',
      /daybook\.log\.copy\.zst of the backup is damaged/,
      async (copy) => {
        const file = path.join(copy, 'daybook.log.copy.zst');
        const bytes = await readFile(file);
        bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] as number) ^ 4;
        await writeFile(file, bytes);
      },
    ],
    [
      'a missing file',
      /daybook\.member\.copy\.zst of the backup is missing/,
      (copy) => rm(path.join(copy, 'daybook.member.copy.zst')),
    ],
    [
      'a file of another backup',
      /its SHA-256 is not the one in the manifest/,
      async (copy) => writeFile(path.join(copy, 'daybook.alert.copy.zst'), zstdCompressSync('')),
    ],
    [
      'a changed event, with an adapted manifest',
      /DAMAGED at position 1: hash differs/,
      (copy, manifest) => rewrite(copy, manifest, 'daybook.log', (text) => text.replace(',500,', ',501,')),
    ],
    [
      'a removed last batch, with its events',
      /ends at position \d+, and its manifest says otherwise|missing: a checkpoint/,
      async (copy, manifest) => {
        await rewrite(copy, manifest, 'daybook.log', (text) => text.replace(/[^\n]+\n$/, ''));
        await rewrite(copy, manifest, 'daybook.log_batch', (text) => text.replace(/[^\n]+\n$/, ''));
      },
    ],
  ])('backup verify: detects without a database: %s', async (_what, message, change) => {
    const copy = await changed(change);
    const { code, stdout, stderr } = await daybook('backup', 'verify', copy);
    expect(code).toBe(1);
    expect(stdout + stderr).toMatch(message);
  });

  test('restore: rejects a damaged backup; a damaged log needs --even-damaged', async () => {
    await using empty = await createDatabase();
    const missing = await changed((copy) => rm(path.join(copy, 'daybook.member.copy.zst')));
    await expect(restoreBackup({ store: empty, directory: missing, evenDamaged: true })).rejects.toThrow(
      BackupDamageError,
    );
    const damaged = await changed((copy, manifest) =>
      rewrite(copy, manifest, 'daybook.log', (text) => text.replace(',500,', ',501,')),
    );
    await expect(restoreBackup({ store: empty, directory: damaged, evenDamaged: false })).rejects.toThrow(
      'damaged at position 1: hash differs',
    );
    await restoreBackup({ store: empty, directory: damaged, evenDamaged: true });
    const client = await connectAs(empty, 'owner');
    expect(await verifyChain(client)).toEqual({ position: 1, problem: 'hash differs' });
    await client.end();
  });

  test('backup verify: an empty or incomplete directory is not a backup', async () => {
    expect(await daybook('backup', 'verify', directory)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('is not a backup') as string,
    });
    expect((await daybook('backup')).stderr).toContain('no target');
    expect((await daybook('backup', '--to', sound.directory)).stderr).toContain('already exists');
    expect((await daybook('restore', '--from', sound.directory)).stderr).toMatch(
      /^daybook: this database already has a log, up to position \d+/,
    );
    const newer = await changed(async (_copy, manifest) => void (manifest.migration = '9999_of_tomorrow'));
    await using empty = await createDatabase();
    await expect(restoreBackup({ store: empty, directory: newer, evenDamaged: false })).rejects.toThrow(
      'newer version',
    );
  });
});

describe('restore', () => {
  test('restore: leaves nothing after a failure, and can be repeated', async () => {
    // The last table can't be loaded, after the log was.
    const copy = await changed((to, manifest) =>
      rewrite(to, manifest, 'daybook.secret_use', () => 'Key00001\tabcd\t2026-01-01 00:00:00+00\n'.repeat(2)),
    );
    await using empty = await createDatabase();
    await expect(restoreBackup({ store: empty, directory: copy, evenDamaged: false })).rejects.toThrow(
      'secret_use',
    );
    const client = await connectAs(empty, 'owner');
    expect(await readHead(client)).toBe(0);
    await restoreBackup({ store: empty, directory: sound.directory, evenDamaged: false });
    expect(await readHead(client)).toBeGreaterThanOrEqual(sound.manifest.head?.position ?? NaN);
    expect(await verifyChain(client)).toBeNull();
    await client.end();
  });

  test('restore: reports the restore gap of a backup older than the published log', async () => {
    await using writer = await openWriter(database);
    await writer.append([accepted(), accepted(), accepted()]);
    const worker = await connectAs(database, 'worker');
    const published = await publishCheckpoint(worker, {
      keyFile: path.join(directory, 'key'),
      directory: path.join(directory, 'published'),
      writer: { instance: writer.instance, nextBatchNo: () => 98 },
    });
    await worker.end();
    const head = sound.manifest.head?.position as number;
    expect(published?.size).toBeGreaterThan(head);
    await using empty = await createDatabase();
    const there = commandLine(() => ({
      DAYBOOK_DATA: path.join(directory, 'data'),
      DATABASE_URL: empty.url,
      PUBLISH_DIR: path.join(directory, 'published'),
    }));
    const { code, stdout } = await there.daybook('restore', '--from', sound.directory);
    expect(code).toBe(0);
    expect(stdout).toContain(
      `LOST: ${(published?.size as number) - head} published events, positions ` +
        `${head + 1} to ${published?.size}, between ${sound.manifest.head?.at} and 20`,
    );
    expect(stdout).toContain('daybook log new-epoch');
  });
});

test('copy in: an interrupted input loads nothing, and the connection stays usable', async () => {
  const client = await connectAs(database, 'owner');
  await client.query('create temporary table t (n integer)');
  async function* broken(): AsyncGenerator<Buffer> {
    yield Buffer.from('1\n2\n');
    throw new Error('input ended');
  }
  await expect(copyIn(client, 'copy t from stdin', broken())).rejects.toThrow('input ended');
  await expect(copyIn(client, 'copy t from stdin', Readable.from([Buffer.from('1\nx\n')]))).rejects.toThrow(
    'invalid input syntax',
  );
  expect(
    await copyIn(client, 'copy t from stdin', Readable.from([Buffer.from('1\n'), Buffer.from('2\n')])),
  ).toBe(2);
  expect((await client.query('select sum(n)::int as sum from t')).rows).toEqual([{ sum: 3 }]);
  await client.end();
});
