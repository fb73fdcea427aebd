import { rename, writeFile, readFile } from 'node:fs/promises';
import path from 'node:path';
import * as fc from 'fast-check';
import type { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Evidence } from '#db/audit/verify/evidence.ts';
import { readPublishedCheckpoint } from '#db/audit/verify/evidence.ts';
import { writeTlogTiles } from '#db/audit/tiles.ts';
import { verifyFiles } from '#db/audit/verify/files.ts';
import { publishCheckpoint } from '#db/tlog/publish.ts';
import { verifyChanged } from '../../support/audit/audited-log.ts';
import { anyCorrection } from '../../support/log/arbitrary-request.ts';
import { connectAs, openWriter } from '../../support/log/log-writer.ts';
import { createPartitionedLog, type PartitionedLog } from '../../support/audit/partitioned-log.ts';

/**
 * A log with detached partitions in files, one archived partition that is still attached, and live ones.
 */

let log: PartitionedLog;
let superuser: Client;
let evidence: Evidence;
let head: number;
/** The first position in the database. */
let first: number;

beforeAll(async () => {
  log = await createPartitionedLog(50, 14);
  const published = path.join(log.directory, 'published');
  const publish = async (): Promise<void> => {
    await using writer = await openWriter(log.database);
    const client = await connectAs(log.database, 'worker');
    let next = 1;
    await publishCheckpoint(client, {
      keyFile: path.join(log.directory, 'key'),
      directory: published,
      writer: { instance: writer.instance, nextBatchNo: () => next++ },
    });
    await client.end();
  };
  await log.fill(200);
  {
    await using writer = await openWriter(log.database);
    await writer.correct(fc.sample(anyCorrection, { numRuns: 4, seed: 1 }));
  }
  await log.fill(300);
  await publish();
  await log.fill(520);
  await publish();
  superuser = await log.database.superuser();
  await superuser.query(
    `update daybook.instance set dead_at = clock_timestamp(), closed_at = clock_timestamp()
      where closed_at is null`,
  );
  await log.archive({ drop: true });
  const { rows } = await superuser.query<{ head: string; first: string }>(
    'select daybook.head(0::smallint) as head, daybook.first_position() as first',
  );
  head = Number(rows[0]?.head);
  first = Number(rows[0]?.first);
  evidence = { published, keys: (await readPublishedCheckpoint(published)).keys };
});
afterAll(async () => {
  await superuser?.end();
  await log?.[Symbol.asyncDispose]();
});

const after = (by: Evidence, ...statements: string[]) => verifyChanged(superuser, statements, by);
const whole = (): Evidence => ({ ...evidence, archive: log.directory });

describe('verify of a log that is archived in part', () => {
  test('audit tiles: archived events are read from their files, and give the published tiles', async () => {
    const directory = path.join(log.directory, 'tiles');
    const client = await connectAs(log.database, 'auditor');
    try {
      await expect(writeTlogTiles(client, { directory, archive: undefined })).rejects.toThrow(
        'is in its archive',
      );
      const { size } = await writeTlogTiles(client, { directory, archive: log.directory });
      expect(size).toBe(head);
    } finally {
      await client.end();
    }
    const published = evidence.published as string;
    for (const name of ['checkpoint', 'keys', 'tile/0/000', 'tile/0/001', `tile/1/000.p/${head >> 8}`])
      expect([name, await readFile(path.join(directory, name))]).toEqual([
        name,
        await readFile(path.join(published, name)),
      ]);
    expect((await readFile(path.join(directory, 'tile/entries/000'))).readUInt16BE()).toBeGreaterThan(50);
  });

  test('audit tiles: archived events after the newest checkpoint are omitted', async () => {
    await superuser.query('begin; delete from daybook.checkpoint where size > 350');
    try {
      const written = await writeTlogTiles(superuser, {
        directory: path.join(log.directory, 'older-tiles'),
        archive: log.directory,
      });
      expect(written.size).toBeLessThan(first - 50);
    } finally {
      await superuser.query('rollback');
    }
  });

  test('verify: a partly archived log passes with, without and by its files alone', async () => {
    expect(first).toBeGreaterThan(300);
    expect(await after(whole())).toMatchObject({
      findings: [],
      first: 1,
      events: head,
      covered: head,
      checkpoints: 3,
    });
    expect(await after(evidence)).toMatchObject({
      findings: [],
      first,
      events: head - first + 1,
      covered: head,
    });
    expect(await after({ keys: evidence.keys ?? [] })).toMatchObject({
      findings: [],
      first,
      covered: 0,
      root: null,
    });
    expect(await verifyFiles([log.directory], evidence)).toMatchObject({
      findings: [],
      first: 1,
      head: first - 1,
      covered: first - 1,
    });
    expect(await verifyFiles((await log.files()).slice(2, 4), evidence)).toMatchObject({
      findings: [],
      first: 100,
      head: 199,
      covered: 199,
    });
  });

  test.each<[string, string, Partial<Record<'position' | 'table', unknown>>]>([
    [
      'an event that is still there',
      `update daybook.log set instance = 999 where last_position =
        (select min(last_position) from daybook.log where last_position > daybook.first_position() + 9)`,
      { table: 'log' },
    ],
    [
      'a batch of the archived part',
      `update daybook.log_batch set chain = sha256('x') where last_position =
        (select max(last_position) from daybook.log_batch where last_position < 60)`,
      { table: 'log_batch' },
    ],
    [
      'an archived control event',
      `update daybook.control_event set line = line || ' ' where position = 2`,
      { table: 'control_event', position: 2 },
    ],
    [
      'an archived control event that is gone',
      'delete from daybook.control_event where position = 2',
      { table: 'control_event', position: 2 },
    ],
    [
      'a correction of an archived event',
      `update daybook.correction set cost_nanousd = coalesce(cost_nanousd, 0) + 1
        where position = (select min(position) from daybook.correction)`,
      { table: 'correction' },
    ],
    [
      'a manifest',
      `update daybook.log_partition set manifest = jsonb_set(manifest, '{control_count}', '1')
        where number = 2`,
      { table: 'log_partition', position: 100 },
    ],
    [
      'a file of another digest',
      `update daybook.log_partition set manifest = jsonb_set(manifest, '{sha256}',
        to_jsonb(repeat('0', 64))) where number = 2`,
      { table: 'log_000002.log.zst' },
    ],
  ])('verify with archive files: detects %s', async (_what, change, finding) => {
    expect((await after(whole(), change)).findings[0]).toMatchObject(finding);
  });

  test('verify without archive files: states how many corrections were not compared', async () => {
    const note = '4 corrections of archived events were not compared; pass --archive-dir to compare them';
    expect((await after(evidence)).notes).toContain(note);
    expect((await after(whole())).notes.join()).not.toContain('corrections');
  });

  test('verify without archive files: detects changed control events of archived partitions', async () => {
    const changes = `update daybook.control_event set line = replace(line, 'command-line', 'Command-line')
      where position = 2`;
    expect((await after(evidence, changes)).findings[0]).toMatchObject({
      table: 'control_event',
      position: 2,
    });
    // Without tiles the manifest shows in which partition one was changed.
    for (const change of [changes, 'delete from daybook.control_event where position = 2'])
      expect((await after({}, change)).findings).toContainEqual(
        expect.objectContaining({ table: 'control_event', position: 1, to: 49 }),
      );
    const inserted = `insert into daybook.control_event select -7, at, instance, 1000, shard, type, stream,
      account, key, line from daybook.control_event where position = 2`;
    expect((await after({}, inserted)).findings).toContainEqual(
      expect.objectContaining({ table: 'control_event', position: -7 }),
    );
    for (const [column, value] of Object.entries({
      at: `at + interval '1 microsecond'`,
      instance: 'instance + 1',
      version: 'version + 1000',
      type: 'type + 1',
      stream: `stream || 'x'`,
      account: `account || 'x'`,
      key: `'x'`,
    })) {
      const change = `update daybook.control_event set ${column} = ${value} where position = 2`;
      expect((await after(evidence, change)).findings[0]).toMatchObject({
        table: 'control_event',
        position: 2,
      });
      const bare = (await after({}, change)).findings[0];
      expect(bare).toMatchObject({ table: 'control_event' });
      expect(bare?.position).toBeLessThanOrEqual(2);
    }
  });

  test('verify with archive files: fails for a missing file, and reports a swapped one', async () => {
    const [one, two] = (await log.files()) as [string, string];
    await rename(one, `${one}.away`);
    await expect(after(whole())).rejects.toThrow("can't be read");
    await writeFile(one, await readFile(two));
    expect((await after(whole())).findings[0]).toMatchObject({ position: 1 });
    await rename(`${one}.away`, one);
    expect((await after(whole())).findings).toEqual([]);
  });
});
