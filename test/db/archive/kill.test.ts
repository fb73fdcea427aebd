import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { Step } from '#db/archive/archive.ts';
import { readAttachment } from '#db/archive/detach.ts';
import { verifyArchivedControl, verifySeries } from '#db/archive/series.ts';
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

test('archive: the next run continues after a crash at any step, without loss or duplicates', async () => {
  await using log = await createPartitionedLog(50, 16);
  await log.fill((STEPS.length + 2) * 50);
  const owner = await connectAs(log.database, 'owner');
  const control = await readPage(owner, 0, 'control');
  const full = STEPS.length + 2;
  for (const [index, step] of STEPS.entries()) {
    // One more partition becomes eligible each time.
    const keep = full - 1 - index;
    expect(await runAndDie(log, keep, step)).toBe('SIGKILL');
    expect(await readPage(owner, 0, 'control'), step).toEqual(control);
    // Postgres may take a moment to notice the lost connection and release its lock.
    await until(
      () => log.archive({ keep, drop: true }),
      (result) => result !== null,
      'the next run',
    );
    expect(await readAttachment(owner, `log_00000${index}`), step).toBe('dropped');
    expect(await readPage(owner, 0, 'control'), step).toEqual(control);
  }
  const found: number[] = [];
  await verifySeries(await log.files(), (_file, { partition }) => found.push(partition));
  expect(found).toEqual([...STEPS.keys()]);
  await verifyArchivedControl(owner);
  // One file and one manifest per partition, and no partial files.
  expect(await readdir(log.directory)).toHaveLength(2 * STEPS.length);
  expect((await readPage(owner, STEPS.length * 50 - 1, 'all'))[0]?.position).toBe(STEPS.length * 50);
  await owner.end();
});

test('archive: a long-running reader delays the detach, but no appends or other reads', async () => {
  await using log = await createPartitionedLog(50, 12);
  await log.fill(160);
  const reader = await connectAs(log.database, 'auditor');
  await reader.query('begin isolation level repeatable read');
  const { rows: seen } = await reader.query('select count(*)::int as count from daybook.log');
  const owner = await connectAs(log.database, 'owner');
  let ended: 'done' | 'cut off' | null = null;
  const archive = async (): Promise<void> => {
    ended = null;
    ended = await log.archive({ keep: 2 }).then(
      () => 'done' as const,
      () => 'cut off' as const,
    );
  };
  let run = archive();
  await until(
    () => readAttachment(owner, 'log_000000'),
    (attachment) => attachment === 'detaching',
    'the detach to wait',
  );

  await using writer = await openWriter(log.database);
  for (let batch = 0; batch < 20; batch++) await writer.append([accepted()]);
  expect((await readPage(owner, 49, 'all')).length).toBeGreaterThan(100);
  expect((await readPage(owner, 0, 'control'))[0]?.version).toBe(1);
  // The detach is still pending, and the older snapshot still sees every row.
  expect(await readAttachment(owner, 'log_000000')).toBe('detaching');
  expect((await reader.query('select count(*)::int as count from daybook.log')).rows).toEqual(seen);

  // A run is interrupted while it waits, as the first one may have ended by its own time limit before. The
  // next one finalizes the detach.
  const admin = await log.database.superuser();
  await until(
    async () => {
      const { rowCount } = await admin.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
          where query like 'alter table daybook.log detach%' and state = 'active'
            and datname = current_database()`,
      );
      if (rowCount === 0 && ended === 'done') run = archive();
      return rowCount;
    },
    (sessions) => sessions === 1,
    'a waiting run to be interrupted',
  );
  await admin.end();
  await run;
  expect(ended).toBe('cut off');
  expect(await readAttachment(owner, 'log_000000')).toBe('detaching');
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
  expect(await readAttachment(owner, 'log_000000')).toBe('detached');
  await owner.end();
});

test('archive: of several concurrent runs one archives, and the others return null', async () => {
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
