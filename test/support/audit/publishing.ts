import type { Store } from '#db/postgres/connect.ts';
import { retireInstance } from '#db/instances/instance.ts';
import type { Checkpoint } from '#db/tlog/checkpoint.ts';
import { type PublishOptions, publishCheckpoint } from '#db/tlog/publish.ts';
import { connectAs, openWriter } from '../log/log-writer.ts';

/** The publish directory of a test, and its signing key. */
export type Publishing = Pick<PublishOptions, 'keyFile' | 'directory'>;

/** Publishes a checkpoint as a worker would. @returns null if the log has not grown. */
export async function publishNow(
  store: Store,
  { keyFile, directory }: Publishing,
): Promise<Checkpoint | null> {
  await using writer = await openWriter(store);
  const client = await connectAs(store, 'worker');
  let batchNo = 0;
  try {
    return await publishCheckpoint(client, {
      keyFile,
      directory,
      writer: { instance: writer.instance, nextBatchNo: () => ++batchNo },
    });
  } finally {
    await client.end();
    await retireInstance(writer.client, writer.instance);
  }
}
