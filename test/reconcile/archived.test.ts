import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { Report } from '#db/reconcile/report/report.ts';
import { createPartitionedLog } from '../support/audit/partitioned-log.ts';
import { commandLine } from '../support/servers/command-line.ts';

/** A bill of an interval that is archived in part. */

test('a comparison reads archived calls from their files, and asks for the directory', async () => {
  await using log = await createPartitionedLog(40, 8);
  await log.fill(170);
  const today = new Date().toISOString().slice(0, 10);
  const bill = path.join(log.directory, 'bill.csv');
  await writeFile(bill, `date,model,cost\n${today},gpt,1.25\n`);
  const { daybook, json } = commandLine(() => ({ DAYBOOK_DATA: '/nowhere', DATABASE_URL: log.database.url }));
  const compare = ['reconcile', 'compare', bill, '--format', 'csv', '--provider', 'acme', '--dry-run'];
  const compared = async (...more: string[]) => {
    const { totals, differences, cells } = await json<Report>(...compare, ...more);
    return { totals, differences, cells };
  };
  const whole = await compared();
  expect(whole.totals.requests).toBeGreaterThan(40);
  const { dropped = [] } = (await log.archive({ drop: true })) ?? {};
  expect(dropped.length).toBeGreaterThan(1);
  const { code, stderr } = await daybook(...compare);
  expect([code, stderr]).toEqual([1, expect.stringContaining('--archive-dir')]);
  expect(stderr).toContain('daybook archive restore');
  expect(await compared('--archive-dir', log.directory)).toEqual(whole);
});
