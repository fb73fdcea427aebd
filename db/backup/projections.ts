import { connectBatch } from '#db/backup/connect.ts';
import { closeClient, type Store } from '#db/postgres/connect.ts';
import { compare, type Comparison } from '#db/projections/compare.ts';
import { PROJECTIONS } from '#db/projections/projections.ts';
import { rebuild } from '#db/projections/rebuild.ts';

/**
 * Rebuilds all projections from a restored log. If interrupted, the worker continues.
 * @returns the number of events that were parked.
 */
export async function rebuildProjections(store: Store, signal?: AbortSignal): Promise<number> {
  const client = await connectBatch(store, 'worker');
  try {
    let parked = 0;
    for (const projection of PROJECTIONS)
      parked += (await rebuild(client, projection, signal ? { signal } : {})).parked;
    return parked;
  } finally {
    await closeClient(client);
  }
}

/** Compares all projections with a replay of the log, row by row. */
export async function checkProjections(store: Store, signal?: AbortSignal): Promise<Comparison[]> {
  const client = await connectBatch(store, 'auditor');
  try {
    const found: Comparison[] = [];
    for (const projection of PROJECTIONS)
      found.push(await compare(client, projection, signal ? { signal } : {}));
    return found;
  } finally {
    await closeClient(client);
  }
}
