import path from 'node:path';
import { expect, test } from 'vitest';
import type { Receipt } from '#db/tlog/receipt.ts';
import { issueReceipt } from '#server/read/receipt.ts';
import type { ApiError } from '#server/errors/api-error.ts';
import { connectAs } from '../../support/log/log-writer.ts';
import { createPartitionedLog } from '../../support/audit/partitioned-log.ts';
import { projectAll } from '../../support/projections/projected.ts';
import { publishNow } from '../../support/audit/publishing.ts';

test('receipt: fails with the archive file to restore, also for events beside the border', async () => {
  await using log = await createPartitionedLog(300, 2);
  await log.append(700, [50]);
  await projectAll(log.database);
  await publishNow(log.database, {
    keyFile: path.join(log.directory, 'key'),
    directory: path.join(log.directory, 'published'),
  });
  const client = await connectAs(log.database, 'relay');
  try {
    const { rows } = await client.query<{ request: string; position: number }>(
      `select request, position::integer from projection.request where end_position is not null
        order by position`,
    );
    const receiptAt = (from: number): Promise<Receipt | ApiError | null> =>
      issueReceipt(
        client,
        { account: null, key: null },
        rows.find(({ position }) => position >= from)?.request as string,
        [],
      );
    const before = await receiptAt(5);
    expect(before).toMatchObject({ has_all_events: true });
    await log.archive();
    expect(await receiptAt(5)).toMatchObject({
      code: 'events_archived',
      message: expect.stringContaining('log_000000.log.zst') as string,
    });
    // One tile has leaves on both sides of the border; the next tile is complete.
    expect(await receiptAt(301)).toMatchObject({
      code: 'events_archived',
      message: expect.stringContaining('stand beside') as string,
    });
    expect(await receiptAt(513)).toMatchObject({ receipt: 'daybook receipt 1' });
  } finally {
    await client.end();
  }
});
