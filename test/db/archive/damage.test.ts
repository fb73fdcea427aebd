import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readAttachment } from '#db/archive/detach.ts';
import { verifySeries } from '#db/archive/series.ts';
import { ArchiveDamageError } from '#db/archive/damage.ts';
import { manifestName } from '#db/archive/manifest.ts';
import { verifyArchive, verifyFile } from '#db/archive/verify.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { connectAs } from '../../support/log/log-writer.ts';
import { createPartitionedLog, type PartitionedLog } from '../../support/audit/partitioned-log.ts';
import { until } from '../../support/relay.ts';

/** Detection of changes in the log by the archive, and in its files. */

/** Batches of four, and one of two after each third one: 43–46, 47–48, 49, 50–52, 53–56, 57–60, … */
const SIZES = [4];

describe('archive of a changed log', () => {
  let log: PartitionedLog;
  let owner: Awaited<ReturnType<typeof connectAs>>;

  beforeAll(async () => {
    log = await createPartitionedLog(50, 8);
    await log.fill(160, SIZES);
    owner = await connectAs(log.database, 'owner');
    for (const table of ['log', 'log_batch']) {
      await owner.query(
        `alter table daybook.${table} disable trigger append_only; create table daybook.true_${table} as
          select * from daybook.${table}`,
      );
    }
  });
  afterAll(async () => {
    await owner?.end();
    await log?.[Symbol.asyncDispose]();
  });

  // The first change is in the first partition, which is archived while the others are tested.
  test.each<[string, string, number]>([
    ['another link before', `update daybook.log_batch set chain = sha256('x') where last_position = 48`, 47],
    [
      'a changed value',
      `update daybook.log set events = replace(events, ',500,', ',501,') where last_position = 60`,
      57,
    ],
    [
      'a changed time',
      `update daybook.log set at = at + interval '1 microsecond' where last_position = 60`,
      57,
    ],
    [
      'a missing line',
      String.raw`update daybook.log set events = regexp_replace(events, '\n[^\n]*$', '')
        where last_position = 60`,
      60,
    ],
    [
      'lines in another order',
      `update daybook.log set events = split_part(events, e'\n', 2) || e'\n' || split_part(events, e'\n', 1)
        where last_position = 62`,
      61,
    ],
    ['missing lines of a batch', 'delete from daybook.log where last_position = 60', 57],
    [
      'a batch that moved behind the others',
      'update daybook.log set last_position = last_position + 100 where last_position = 99',
      99,
    ],
    ['a missing batch', 'delete from daybook.log_batch where last_position = 60', 57],
    [
      'another link of the chain',
      `update daybook.log_batch set chain = sha256('x') where last_position = 60`,
      57,
    ],
  ])('archive: %s keeps that partition and later ones in the database', async (_, change, position) => {
    expect((await owner.query(change)).rowCount).toBe(1);
    const found = await log.archive().then(
      () => null,
      (error: unknown) => error,
    );
    expect(found).toBeInstanceOf(ArchiveDamageError);
    // A hash mismatch concerns the full batch, so its first position is reported.
    expect((found as ArchiveDamageError).position).toBe(position);
    const damaged = position < 50 ? 'log_000000' : 'log_000001';
    expect(await readAttachment(owner, damaged)).toBe('attached');
    expect(
      (await readdir(log.directory)).filter((name) => name.startsWith(damaged) && !name.endsWith('.partial')),
    ).toEqual([]);
    await owner.query(`delete from daybook.log; delete from daybook.log_batch;
      insert into daybook.log select * from daybook.true_log where last_position >= daybook.first_position();
      insert into daybook.log_batch select * from daybook.true_log_batch`);
  });

  test('archive: a log that was repaired is archived', async () => {
    expect((await log.archive())?.archived).toEqual(['log_000001']);
  });
});

describe('a changed archive file', () => {
  let log: PartitionedLog;
  let file: string;
  let whole: Buffer;

  beforeAll(async () => {
    log = await createPartitionedLog(50, 8);
    await log.fill(200, SIZES);
    await log.archive();
    file = (await log.files())[1] as string;
    whole = await readFile(file);
  });
  afterAll(async () => {
    await log?.[Symbol.asyncDispose]();
  });

  /** The damage found in other content under this file's name. */
  async function foundIn(content: Buffer, check: (name: string) => Promise<unknown>): Promise<unknown> {
    await writeFile(file, content);
    try {
      return await check(file).then(
        () => null,
        (error: unknown) => error,
      );
    } finally {
      await writeFile(file, whole);
    }
  }

  test('archive verify: any changed byte is detected, with the last valid position', async () => {
    for (let at = 0; at < whole.length; at += 7) {
      const changed = Buffer.from(whole);
      changed[at] = (changed[at] as number) ^ 0x10;
      const found = await foundIn(changed, verifyArchive);
      expect(found, `byte ${at}`).toBeInstanceOf(ArchiveDamageError);
      const { position } = found as ArchiveDamageError;
      expect(position === 0 || (position >= 50 && position <= 100), `byte ${at}: position ${position}`).toBe(
        true,
      );
    }
  });

  test('archive verify: a change recompressed consistently is located at its position', async () => {
    const lines = zstdDecompressSync(whole).toString().trimEnd().split('\n');
    // Of the batch 67–70, and of its third event.
    const batch = lines.findIndex((line) => / \(0,70,4,/.test(line));
    const at = batch + 3;
    const foundAfter = (change: (lines: string[]) => string[]): Promise<unknown> =>
      foundIn(zstdCompressSync(`${change([...lines]).join('\n')}\n`), (name) => verifyFile(name));
    expect(await foundAfter((all) => all)).toBeNull();
    for (const [change, position] of [
      [(all: string[]) => all.with(at, (all[at] as string).replace(',500,', ',501,')), 67],
      [(all: string[]) => all.with(batch, (all[batch] as string).replace(/\d+,1\)$/, '7,1)')), 67],
      [(all: string[]) => all.with(batch, (all[batch] as string).replace('(0,70', '(0,71')), 67],
      [(all: string[]) => all.toSpliced(batch, 5), 67],
      [(all: string[]) => all.toSpliced(batch, 1), 67],
      [(all: string[]) => all.toSpliced(at, 1), 70],
      [(all: string[]) => all.toSpliced(at, 0, all[at] as string), 71],
      [(all: string[]) => all.with(at, all[at + 1] as string).with(at + 1, all[at] as string), 67],
      [(all: string[]) => all.slice(0, at), 69],
      [(all: string[]) => all.slice(0, batch), 67],
      [(all: string[]) => [...all, all.at(-1) as string], 100],
      [(all: string[]) => [...all, ...all.slice(1)], 100],
      [(all: string[]) => all.with(at, 'x'), 69],
      [(all: string[]) => all.toSpliced(1, 1), 50],
    ] as const) {
      const found = await foundAfter(change);
      expect(found, change.toString()).toBeInstanceOf(ArchiveDamageError);
      expect((found as ArchiveDamageError).position, change.toString()).toBe(position);
    }
  });

  test('archive verify: a missing or foreign file breaks the series', async () => {
    const [first, second, third] = (await log.files()) as [string, string, string];
    await verifySeries([third, first, second], () => undefined);
    await verifySeries([second, third], () => undefined);
    await expect(verifySeries([first, third], () => undefined)).rejects.toThrow(
      'does not follow position 49',
    );

    await using other = await createPartitionedLog(50, 8);
    const owner = await connectAs(other.database, 'owner');
    // Test databases are clones of one template and share its log ID.
    await owner.query('update daybook.install set log_id = gen_random_uuid()');
    await owner.end();
    await other.fill(120, SIZES);
    await other.archive();
    const [foreign] = (await other.files()) as [string];
    await expect(verifySeries([foreign, second], () => undefined)).rejects.toThrow('of another log');
    // The same log ID, with another history.
    const forged = zstdDecompressSync(await readFile(foreign))
      .toString()
      .replace(/"log_id":"[^"]+"/, `"log_id":"${(await verifyFile(second)).log_id}"`);
    const name = path.join(other.directory, path.basename(first));
    await writeFile(name, zstdCompressSync(forged));
    const beside = path.join(other.directory, manifestName(path.basename(name)));
    const manifest = JSON.parse(await readFile(beside, 'utf8')) as Record<string, unknown>;
    const { bytes, sha256, log_id } = await verifyFile(name);
    await writeFile(beside, JSON.stringify({ ...manifest, bytes, sha256, log_id }));
    await expect(verifySeries([name], () => undefined)).rejects.toThrow(
      'its chain does not continue the one before',
    );
  });

  test('archive: a file lost or changed after "recorded" keeps its partition in the database', async () => {
    await using broken = await createPartitionedLog(50, 8);
    await broken.fill(160, SIZES);
    const stop = new Error('stopped');
    await expect(
      broken.archive({ onStep: (step) => (step === 'recorded' ? Promise.reject(stop) : undefined) }),
    ).rejects.toBe(stop);
    const [recorded] = (await broken.files()) as [string];
    const content = await readFile(recorded);
    await writeFile(recorded, content.subarray(1));
    // PostgreSQL may keep the lock of a run for a moment after its session has ended.
    const again = () => until(() => broken.archive({ drop: true }), Boolean, 'the lock');
    await expect(again()).rejects.toThrow(ArchiveDamageError);
    await rm(recorded);
    await expect(again()).rejects.toThrow(StoreError);
    const owner = await connectAs(broken.database, 'owner');
    expect(await readAttachment(owner, 'log_000000')).toBe('attached');
    await owner.end();
    await writeFile(recorded, content);
    expect((await again())?.dropped).toContain('log_000000');
  });
});
