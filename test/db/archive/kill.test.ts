import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { Step } from '#db/archive/archive.ts';
import { standingOf } from '#db/archive/detach.ts';
import { verifyAllKept, verifySeries } from '#db/archive/series.ts';
import { readPage } from '#db/log/read.ts';
import { accepted, connectAs, openWriter } from '../../support/log/log-writer.ts';
import { createPartitionedLog, type PartitionedLog } from '../../support/audit/partitioned-log.ts';
import { until } from '../../support/relay.ts';

const CHILD = path.join(import.meta.dirname, '../../support/audit/archive-child.ts');
const STEPS: readonly Step[] = ['exported', 'verified', 'named', 'recorded', 'detached', 'dropped'];

/** @returns the signal that ended it. */
async function runAndDie(log: PartitionedLog, keep: number, step: Step): Promise<NodeJS.Signals | null> {
  const env = { ...process.env, DATABASE_URL: log.database.url };
  const child = spawn(process.execPath, [CHILD, log.directory, String(keep), step], {
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const [, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  return signal;
}

test('a run that is killed after any of its steps is taken up by the next: nothing is lost, nothing is there twice', async () => {
  await using log = await createPartitionedLog(50, 16);
  await log.fill((STEPS.length + 2) * 50);
  const owner = await connectAs(log.database, 'owner');
  const control = await readPage(owner, 0, 'control');
  const full = STEPS.length + 2;
  for (const [index, step] of STEPS.entries()) {
    // One more is due each time.
    const keep = full - 1 - index;
    expect(await runAndDie(log, keep, step)).toBe('SIGKILL');
    expect(await readPage(owner, 0, 'control'), step).toEqual(control);
    // Its connection may take a moment to be gone, and its lock with it.
    await until(
      () => log.archive({ keep, drop: true }),
      (result) => result !== null,
      'the next run',
    );
    expect(await standingOf(owner, `log_00000${index}`), step).toBe('dropped');
    expect(await readPage(owner, 0, 'control'), step).toEqual(control);
  }
  const found: number[] = [];
  await verifySeries(await log.files(), (_file, { partition }) => found.push(partition));
  expect(found).toEqual([...STEPS.keys()]);
  await verifyAllKept(owner);
  // No leftovers either: a file and its manifest each.
  expect(await readdir(log.directory)).toHaveLength(2 * STEPS.length);
  expect((await readPage(owner, STEPS.length * 50 - 1, 'all'))[0]?.position).toBe(STEPS.length * 50);
  await owner.end();
});

test('while a reader of long standing is in the way, appends and other readers go on; the partition leaves after it', async () => {
  await using log = await createPartitionedLog(50, 12);
  await log.fill(160);
  const reader = await connectAs(log.database, 'auditor');
  await reader.query('begin isolation level repeatable read');
  const { rows: seen } = await reader.query('select count(*)::int as count from daybook.log');
  const owner = await connectAs(log.database, 'owner');
  const run = log.archive({ keep: 2 }).then(
    () => 'done',
    () => 'cut off',
  );
  await until(
    () => standingOf(owner, 'log_000000'),
    (standing) => standing === 'leaving',
    'the detach to wait',
  );

  await using writer = await openWriter(log.database);
  for (let batch = 0; batch < 20; batch++) await writer.append([accepted()]);
  expect((await readPage(owner, 49, 'all')).length).toBeGreaterThan(100);
  expect((await readPage(owner, 0, 'control'))[0]?.version).toBe(1);
  // It is still on its way, and who began before has all of it.
  expect(await standingOf(owner, 'log_000000')).toBe('leaving');
  expect((await reader.query('select count(*)::int as count from daybook.log')).rows).toEqual(seen);

  // The run is cut off where it waits: the next one finishes that.
  const admin = await log.database.superuser();
  await admin.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where query like 'alter table daybook.log detach%' and datname = current_database()`,
  );
  await admin.end();
  expect(await run).toBe('cut off');
  expect(await standingOf(owner, 'log_000000')).toBe('leaving');
  await reader.query('commit');
  await reader.end();
  expect(
    (
      await until(
        () => log.archive({ keep: 2 }),
        (result) => result !== null,
        'the next run',
      )
    )?.detached,
  ).toEqual(['log_000000']);
  expect(await standingOf(owner, 'log_000000')).toBe('detached');
  await owner.end();
});

test('of several runs at once one archives, and the others find it at work', async () => {
  await using log = await createPartitionedLog(50, 12);
  await log.fill(200);
  const results = await Promise.all([1, 2, 3].map(() => log.archive()));
  expect(
    results
      .filter((result) => result !== null)
      .flatMap(({ archived }) => archived)
      .toSorted(),
  ).toEqual(['log_000000', 'log_000001', 'log_000002']);
  await verifySeries(await log.files(), () => undefined);
});
