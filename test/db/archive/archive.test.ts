import * as fc from 'fast-check';
import { readdir } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ArchiveDamageError } from '#db/archive/damage.ts';
import {
  type PartitionStatus,
  listPartitions,
  verifyArchivedControl,
  verifySeries,
} from '#db/archive/series.ts';
import { verifiedBatches } from '#db/archive/verify.ts';
import { registerInstance, retireInstance } from '#db/instances/instance.ts';
import { ConflictError } from '#db/log/append.ts';
import { entriesOf } from '#db/log/chain.ts';
import { follow } from '#db/log/follow.ts';
import { ArchivedError, firstPosition, readPage, readStream } from '#db/log/read.ts';
import { readEntries } from '../../support/audit/verify-chain.ts';
import { connectAs, openWriter, suspended } from '../../support/log/log-writer.ts';
import { createPartitionedLog, type PartitionedLog } from '../../support/audit/partitioned-log.ts';
import { projectAll } from '../../support/projections/projected.ts';

/** The entries of a file. */
const entries = async (file: string): Promise<string[]> =>
  (await Array.fromAsync(verifiedBatches(file))).flat().flatMap(entriesOf);

test('archive: files verify by themselves and continue one another across batches', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 10, max: 40 }),
      fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 6 }),
      async (size, sizes) => {
        await using log = await createPartitionedLog(size, 12);
        await log.fill(4 * size, sizes);
        const owner = await connectAs(log.database, 'owner');
        const stored = await readEntries(owner);
        const result = await log.archive({ drop: true });
        expect(result?.archived.length).toBeGreaterThanOrEqual(2);
        expect(result?.dropped).toEqual(result?.archived);
        const found: number[] = [];
        await verifySeries(await log.files(), (_file, { first_position }) => found.push(first_position));
        expect(found).toHaveLength(result?.archived.length ?? 0);
        await verifyArchivedControl(owner);
        await owner.end();
        // Each event is in one file only, as it was in the log.
        const archived = (await Promise.all((await log.files()).map(entries))).flat();
        expect(archived).toEqual(stored.slice(0, archived.length));
        expect(archived.length).toBe(found.length * size - 1);
      },
    ),
    { numRuns: 4 },
  );
});

describe('archive eligibility', () => {
  test('archive: keeps a partition that is not full, not projected, recent or still needed', async () => {
    await using log = await createPartitionedLog(50, 8);
    await log.fill(160);
    const owner = await connectAs(log.database, 'owner');
    const waiting = async (keep: number): Promise<string | null | undefined> =>
      (await log.archive({ keep }))?.waiting;
    expect(await waiting(3)).toBe('log_000000 not archived: the newest 3 full ones are kept');
    await owner.query("update daybook.projection set position = 48 where name = 'usage'");
    expect(await waiting(1)).toBe('log_000000 not archived: the projections have reached position 48');
    await owner.query('update daybook.projection set position = daybook.head(0::smallint)');
    // An instance that registered at this head and has not reported since.
    const instance = await registerInstance(owner, 'silent');
    await owner.query('update daybook.instance set open_from = 49 where id = $1', [instance]);
    expect(await waiting(1)).toBe(
      'log_000000 not archived: open requests or leases need the events after position 48',
    );
    await retireInstance(owner, instance);
    expect(await firstPosition(owner)).toBe(1);
    expect(await waiting(1)).toBe('log_000002 not archived: the newest 1 full ones are kept');
    expect(await firstPosition(owner)).toBe(100);
    await log.fill(200);
    expect(await waiting(1)).toBe('log_000003 not archived: the newest 1 full ones are kept');
    await owner.end();
  });
});

test('archive: projections continue while partitions are archived', async () => {
  await using log = await createPartitionedLog(50, 8);
  await log.append(160);
  await projectAll(log.database);
  let steps = 0;
  const result = await log.archive({
    onStep: async () => {
      await log.append(160 + 2 * ++steps);
      await projectAll(log.database);
    },
  });
  expect(result?.detached).toEqual(['log_000000', 'log_000001']);
  expect(steps).toBe(10);
});

describe('archived partitions', () => {
  let log: PartitionedLog;
  let owner: Awaited<ReturnType<typeof connectAs>>;
  let before: Awaited<ReturnType<typeof readPage>>;

  beforeAll(async () => {
    log = await createPartitionedLog(50, 12);
    await log.fill(180);
    owner = await connectAs(log.database, 'owner');
    before = await readPage(owner, 0, 'control');
    expect((await log.archive())?.detached).toEqual(['log_000000', 'log_000001']);
  });
  afterAll(async () => {
    await owner?.end();
    await log?.[Symbol.asyncDispose]();
  });

  test('archive: control events of archived partitions stay readable from any position', async () => {
    expect(await readPage(owner, 0, 'control')).toEqual(before);
    for (const { position } of before) {
      expect(await readPage(owner, position, 'control', 3)).toEqual(
        before.filter((each) => each.position > position).slice(0, 3),
      );
    }
    expect(before.filter(({ position }) => position < 100).length).toBeGreaterThan(4);
  });

  test('archive: control streams stay complete, and continue', async () => {
    const [first] = before;
    const stream = first?.stream ?? '';
    expect((await readStream(owner, stream)).map(({ version }) => version)).toEqual([1, 2]);
    await using writer = await openWriter(log.database);
    const account = stream.replace('account/', '');
    await expect(writer.control([{ event: suspended(account), version: 2 }])).rejects.toThrow(ConflictError);
    await writer.control([{ event: suspended(account), version: 3 }]);
    expect((await readStream(owner, stream)).map(({ version }) => version)).toEqual([1, 2, 3]);
    await retireInstance(writer.client, writer.instance);
  });

  test('archive: reading the full log fails with the files to restore', async () => {
    const names = ['log_000000.log.zst', 'log_000001.log.zst'];
    for (const after of [0, 48, 98]) {
      const refused = readPage(owner, after, 'all');
      await expect(refused).rejects.toThrow(ArchivedError);
      await expect(refused).rejects.toThrow(
        'before position 100 is in its archive; to read it, ' +
          `restore ${(after < 49 ? names : names.slice(1)).join(', ')}`,
      );
    }
    expect((await readPage(owner, 99, 'all'))[0]?.position).toBe(100);
    const failed = Promise.withResolvers<unknown>();
    const follower = follow({
      config: log.database.config('relay'),
      scope: 'all',
      after: 0,
      onPage: () => failed.resolve(null),
      onError: failed.resolve,
    });
    expect(await failed.promise).toBeInstanceOf(ArchivedError);
    await follower.close();
  });

  test('archive: no role can change control events or a detached partition', async () => {
    const changes = (table: string): string[] => [
      `update ${table} set shard = 1`,
      `delete from ${table}`,
      `truncate ${table}`,
    ];
    for (const role of ['owner', 'relay', 'worker', 'auditor'] as const) {
      const client = await connectAs(log.database, role);
      for (const change of [...changes('daybook.control_event'), ...changes('daybook.log_000000')]) {
        await expect(client.query(change), `${role}: ${change}`).rejects.toMatchObject({ code: '42501' });
      }
      if (role !== 'owner') {
        for (const change of [
          'insert into daybook.control_event select * from daybook.control_event limit 1',
          `select daybook.record_archived(2, '{}')`,
          `select daybook.attach_partition(0, 'log_000000')`,
          'update daybook.log_partition set archived_at = null',
        ]) {
          await expect(client.query(change), `${role}: ${change}`).rejects.toMatchObject({ code: '42501' });
        }
      }
      await client.end();
    }
  });

  test('archive: a changed, missing or extra control event of archived partitions is detected', async () => {
    const position = before[3]?.position ?? 0;
    for (const change of [
      `update daybook.control_event set line = replace(line, 'actor', 'agent') where position = ${position}`,
      `update daybook.control_event set at = at + interval '1 microsecond' where position = ${position}`,
      `delete from daybook.control_event where position = ${position}`,
      `insert into daybook.control_event (shard, position, at, instance, type, stream, version, line)
        select 0, 99, now(), 1, 1, 'account/x', 1, '(1)'
        where not exists (select from daybook.control_event where position = 99)`,
    ]) {
      await owner.query('begin; alter table daybook.control_event disable trigger append_only');
      expect((await owner.query(change)).rowCount).toBe(1);
      await expect(verifyArchivedControl(owner), change).rejects.toThrow(ArchiveDamageError);
      await owner.query('rollback');
    }
    await verifyArchivedControl(owner);
  });

  test('archive list: shows the state of every partition', async () => {
    const listed = await listPartitions(owner);
    const where = (each: PartitionStatus): string[] => [
      each.name,
      each.attachment,
      each.manifest?.file ?? '',
    ];
    expect(listed.slice(0, 3).map(where)).toEqual([
      ['log_000000', 'detached', 'log_000000.log.zst'],
      ['log_000001', 'detached', 'log_000001.log.zst'],
      ['log_000002', 'attached', ''],
    ]);
    expect((await readdir(log.directory)).toSorted()).toEqual(
      ['log_000000', 'log_000001'].flatMap((name) => [`${name}.manifest.json`, `${name}.log.zst`]).toSorted(),
    );
  });
});
