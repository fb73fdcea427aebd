import path from 'node:path';
import { expect, test } from 'vitest';
import { ArchivedError } from '#db/log/read.ts';
import { backtest } from '#server/backtest/run.ts';
import type { BacktestReport } from '#server/contract/backtest.ts';
import { createPartitionedLog } from '../support/audit/partitioned-log.ts';
import { connectAs } from '../support/log/log-writer.ts';

/** Back-tests of a log whose beginning is archived. */

const PARTITION = 100;

test('reads archived calls from their files, and names these where it has no directory', async () => {
  await using log = await createPartitionedLog(PARTITION, 4);
  await log.fill(3 * PARTITION + 50);
  const whenAll = new Date(Date.now() + 60_000);
  const run = async (
    archiveDir: string | undefined,
    from = new Date(0),
    to = whenAll,
  ): Promise<BacktestReport> => {
    const client = await connectAs(log.database, 'auditor');
    try {
      const changes = { plan: null, prices: [], models: new Map() };
      return await backtest(client, { changes, from, to, archiveDir });
    } finally {
      await client.end();
    }
  };
  const whole = await run(undefined);
  expect(whole.calls.admitted).toBeGreaterThan(0);
  await log.archive({ drop: true });
  const [first = ''] = await log.files();
  await expect(run(undefined)).rejects.toThrow(ArchivedError);
  await expect(run(undefined)).rejects.toThrow(path.basename(first));
  expect(await run(log.directory)).toEqual(whole);
  // A period that begins in another month and week needs nothing of them.
  const later = new Date(Date.now() + 40 * 86_400_000);
  expect((await run(undefined, later, later)).calls.admitted).toBe(0);
});
