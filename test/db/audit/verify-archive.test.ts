import { rename, writeFile, readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Evidence } from '#db/audit/verify/evidence.ts';
import { readPublishedCheckpoint } from '#db/audit/verify/evidence.ts';
import { writeTlogTiles } from '#db/audit/tiles.ts';
import { verifyFiles } from '#db/audit/verify/files.ts';
import { publishCheckpoint } from '#db/tlog/publish.ts';
import { verifyChanged } from '../../support/audit/audited-log.ts';
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
        '--archive-dir',
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
      `update daybook.log set instance = 999 where position = (select daybook.first_position() + 9)`,
      { table: 'log' },
    ],
    [
      'a batch of the archived part',
      `update daybook.log_batch set chain = sha256('x') where last_position =
        (select max(last_position) from daybook.log_batch where last_position < 60)`,
      { table: 'log_batch' },
    ],
    [
      'a kept event',
      `update daybook.log_kept set body = body || ' ' where position = (select min(position)
        from daybook.log_kept)`,
      { table: 'log_kept', position: 2 },
    ],
    [
      'a kept event that is gone',
      'delete from daybook.log_kept where position = (select min(position) from daybook.log_kept)',
      { table: 'log_kept', position: 2 },
    ],
    [
      'a manifest',
      `update daybook.log_partition set manifest = jsonb_set(manifest, '{control_count}', '1')
        where number = 2`,
      { table: 'log_partition', position: 100 },
    ],
    [
      'the leaves of an open batch',
      `update daybook.log_partition set open_leaves = sha256('x') where number = 2`,
      { table: 'log_partition', position: 100 },
    ],
    [
      'a file of another digest',
      `update daybook.log_partition set manifest = jsonb_set(manifest, '{sha256}',
        to_jsonb(repeat('0', 64))) where number = 2`,
      { table: 'log_000002.ndjson.zst' },
    ],
  ])('verify with archive files: detects %s', async (_what, change, finding) => {
    expect((await after(whole(), change)).findings[0]).toMatchObject(finding);
  });

  test('verify without archive files: detects changed retained events and manifests', async () => {
    const kept = await after(
      evidence,
      `update daybook.log_kept set body = body || ' ' where position = (select min(position)
        from daybook.log_kept)`,
    );
    expect(kept.findings[0]).toMatchObject({ table: 'log_kept', position: 2 });
    const bare = await after(
      {},
      `update daybook.log_kept set body = body || ' ' where position = (select min(position)
        from daybook.log_kept)`,
    );
    expect(bare.findings[0]).toMatchObject({ table: 'log_kept', position: 1, to: 49 });
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
