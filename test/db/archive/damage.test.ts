import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readAttachment } from '#db/archive/detach.ts';
import { verifySeries } from '#db/archive/series.ts';
import { ArchiveDamageError, verifyArchive, verifyFile } from '#db/archive/verify.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { connectAs } from '../../support/log/log-writer.ts';
import { createPartitionedLog, type PartitionedLog } from '../../support/audit/partitioned-log.ts';

/** Detection of changes in the log by the archive, and in its files. */

/** Batches of four, and one of two after each third one: 43–46, 47–48, 49–52, … */
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
    ['a changed value', 'update daybook.log set output_tokens = 21 where position = 60', 57],
    ['a changed time', `update daybook.log set at = at + interval '1 microsecond' where position = 60`, 57],
    ['a missing row', 'delete from daybook.log where position = 60', 60],
    [
      'a row that moved behind the others',
      'update daybook.log set position = position + 100 where position = 99',
      99,
    ],
    [
      'a changed row of a batch that the next partition ends',
      'update daybook.log set key = null where position = 101',
      99,
    ],
    ['a missing batch', 'delete from daybook.log_batch where last_position = 60', 57],
    [
      'another link of the chain',
      `update daybook.log_batch set chain = sha256('x') where last_position = 60`,
      57,
    ],
  ])('archive: %s keeps that partition and later ones in the database', async (_, change, position) => {
    await owner.query(change);
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
      insert into daybook.log select * from daybook.true_log where position >= daybook.first_position();
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
      expect(position === 0 || (position >= 45 && position <= 100), `byte ${at}: position ${position}`).toBe(
        true,
      );
    }
  });

  test('archive verify: a change recompressed consistently is located at its position', async () => {
    const text = zstdDecompressSync(whole).toString();
    const lines = text.trimEnd().split('\n');
    const at = lines.findIndex((line) => line.startsWith('{"position":70,'));
    const foundAfter = (change: (lines: string[]) => string[]): Promise<unknown> =>
      foundIn(zstdCompressSync(`${change([...lines]).join('\n')}\n`), (name) => verifyFile(name));
    const firstOfBatch = (): number => {
      const before =
        lines.slice(0, at).findLast((line) => line.startsWith('{"batch"')) ?? '{"batch":{"last_position":0}}';
      return (JSON.parse(before) as { batch: { last_position: number } }).batch.last_position + 1;
    };
    expect(await foundAfter((all) => all)).toBeNull();
    for (const [change, position] of [
      [
        (all: string[]) => all.with(at, (all[at] as string).replace('"instance":', '"instance":9')),
        firstOfBatch(),
      ],
      [(all: string[]) => all.with(at, (all[at] as string).replace('}', ',"status":7}')), firstOfBatch()],
      [(all: string[]) => all.with(at, (all[at] as string).replace('"type":', '"novel":7,"type":')), 70],
      [(all: string[]) => all.toSpliced(at, 1), 70],
      [(all: string[]) => all.toSpliced(at, 0, all[at] as string), 71],
      [(all: string[]) => all.with(at, all[at + 1] as string).with(at + 1, all[at] as string), 70],
      [(all: string[]) => all.slice(0, at), 70],
      [(all: string[]) => [...all, all.at(-1) as string], 100],
      [(all: string[]) => all.with(at, 'x'), 70],
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
    const manifest = JSON.parse(
      await readFile(name.replace('ndjson.zst', 'manifest.json'), 'utf8'),
    ) as Record<string, unknown>;
    const { bytes, sha256, log_id } = await verifyFile(name);
    await writeFile(
      name.replace('ndjson.zst', 'manifest.json'),
      JSON.stringify({ ...manifest, bytes, sha256, log_id }),
    );
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
    await expect(broken.archive({ drop: true })).rejects.toThrow(ArchiveDamageError);
    await rm(recorded);
    await expect(broken.archive({ drop: true })).rejects.toThrow(StoreError);
    const owner = await connectAs(broken.database, 'owner');
    expect(await readAttachment(owner, 'log_000000')).toBe('attached');
    await owner.end();
    await writeFile(recorded, content);
    expect((await broken.archive({ drop: true }))?.dropped).toContain('log_000000');
  });
});
