import type { Store } from '#db/postgres/connect.ts';
import { projectPage, startEpoch } from '#db/projections/project.ts';
import { PROJECTIONS } from '#db/projections/projections.ts';
import { connectAs } from '../log/log-writer.ts';

/** Moves all projections on to the head of the log, as the worker does. */
export async function projectAll(store: Store): Promise<void> {
  const client = await connectAs(store, 'worker');
  try {
    const epoch = await startEpoch(client);
    for (;;) {
      const page = await projectPage(client, { projections: PROJECTIONS, epoch });
      if (page.kind !== 'projected') throw new Error(`the test's projector had to give way: ${page.kind}`);
      const faults = [...page.parked, ...page.broken, ...page.detached];
      if (faults.length > 0) throw new Error(`not all was taken in: ${JSON.stringify(faults)}`);
      if (page.range.upTo === page.head) return;
    }
  } finally {
    await client.end();
  }
}
