import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { standingOf } from '#db/archive/detach.ts';
import { verifySeries } from '#db/archive/series.ts';
import { ArchiveDamageError, verifyArchive, verifyFile } from '#db/archive/verify.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { connectAs } from '../../support/log/log-writer.ts';
import { createPartitionedLog, type PartitionedLog } from '../../support/audit/partitioned-log.ts';

/** What an archive finds out about a log, or a file, that was changed. */

/** Batches of four, and after each third one of two: 43–46, 47–48, 49–52 …, 57–60, 61–62, … 99–102. */
const SIZES = [4];

describe('a log that was changed', () => {
  let log: PartitionedLog;
  let owner: Awaited<ReturnType<typeof connectAs>>;

  beforeAll(async () => {
    log = await createPartitionedLog(50, 8);
    await log.fill(160, SIZES);
    owner = await connectAs(log.database, 'owner');
    for (const table of ['log', 'log_batch']) {
      await owner.query(
        `alter table daybook.${table} disable trigger append_only; create table daybook.true_${table} as select * from daybook.${table}`,
      );
    }
  });
  afterAll(async () => {
    await owner?.end();
    await log?.[Symbol.asyncDispose]();
  });

  // The first concerns the first partition, which is archived while the others are tried.
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
  ])('by %s stays where it is from that partition on', async (_, change, position) => {
    await owner.query(change);
    const found = await log.archive().then(
      () => null,
      (error: unknown) => error,
    );
    expect(found).toBeInstanceOf(ArchiveDamageError);
    // A hash accuses the whole batch: its first position is named.
    expect((found as ArchiveDamageError).position).toBe(position);
    const damaged = position < 50 ? 'log_000000' : 'log_000001';
    expect(await standingOf(owner, damaged)).toBe('attached');
    expect(
      (await readdir(log.directory)).filter((name) => name.startsWith(damaged) && !name.endsWith('.partial')),
    ).toEqual([]);
    await owner.query(`delete from daybook.log; delete from daybook.log_batch;
      insert into daybook.log select * from daybook.true_log where position >= daybook.first_position();
      insert into daybook.log_batch select * from daybook.true_log_batch`);
  });

  test('and was put right is archived', async () => {
    expect((await log.archive())?.archived).toEqual(['log_000001']);
  });
});

describe('a file that was changed', () => {
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

  /** What the check finds in another file under this one's name. */
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

  test('in any one of its bytes is found, and the position is named up to which it is good', async () => {
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

  test('and compressed anew is found at the first bad position, from the file alone', async () => {
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

  test('or left out, or of another log, is no continuation of the others', async () => {
    const [first, second, third] = (await log.files()) as [string, string, string];
    await verifySeries([third, first, second], () => undefined);
    await verifySeries([second, third], () => undefined);
    await expect(verifySeries([first, third], () => undefined)).rejects.toThrow(
      'does not follow position 49',
    );

    await using other = await createPartitionedLog(50, 8);
    const owner = await connectAs(other.database, 'owner');
    // Databases of tests are copies of one and share its log's id.
    await owner.query('update daybook.install set log_id = gen_random_uuid()');
    await owner.end();
    await other.fill(120, SIZES);
    await other.archive();
    const [foreign] = (await other.files()) as [string];
    await expect(verifySeries([foreign, second], () => undefined)).rejects.toThrow('of another log');
    // The same log, so it says, but another history.
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

  test('or lost after it was recorded keeps its partition in the database', async () => {
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
    expect(await standingOf(owner, 'log_000000')).toBe('attached');
    await owner.end();
    await writeFile(recorded, content);
    expect((await broken.archive({ drop: true }))?.dropped).toContain('log_000000');
  });
});
