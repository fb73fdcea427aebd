import type { Client } from 'pg';
import { z } from 'zod';
import { closeClient } from '#db/postgres/connect.ts';
import { isHeld } from '#db/postgres/locks.ts';
import type { Projection, ProjectionName } from '#db/projections/projection.ts';
import { rebuild, RebuildBusyError } from '#db/projections/rebuild.ts';
import type { Logger } from '#db/diagnostics/logger.ts';

export const RebuildProjection = z.object({ projection: z.string() });

export type RebuildOptions = {
  projections: readonly Projection[];
  /** Opens a connection with a statement timeout for a page of a copy. */
  connect: () => Promise<Client>;
  /** Ends the job: its worker stops. */
  signal: AbortSignal;
  log: Logger;
};

/** One page of a copy, or the index of a large table. */
export const REBUILD_TIMEOUT_MS = 600_000;

/**
 * Adds the job, unless one is waiting (also for its next attempt) or a rebuild is running. The job of
 * a killed worker is neither, so it is replaced.
 */
const QUEUE = `select graphile_worker.add_job('rebuild_projection', json_build_object('projection', $1::text),
    job_key => 'rebuild-' || $1::text)
  where not exists (select from graphile_worker.jobs
      where key = 'rebuild-' || $1::text and locked_at is null and attempts < max_attempts)
    and not exists (select from pg_locks where ${isHeld('rebuild')})`;

/** Queues the rebuild of projections. Idempotent. */
export async function queueRebuilds(
  client: Pick<Client, 'query'>,
  names: readonly ProjectionName[],
): Promise<void> {
  for (const name of names) await client.query(QUEUE, [name]);
}

/** Rebuilds a projection. While another rebuild is running, the queue retries. */
export async function rebuildProjectionTask(
  payload: unknown,
  { projections, connect, signal, log }: RebuildOptions,
): Promise<void> {
  const { projection: name } = RebuildProjection.parse(payload);
  const projection = projections.find((each) => each.name === name);
  // Added by a newer version, whose worker will retry the job.
  if (projection === undefined) throw new Error('this worker does not know the projection');
  const client = await connect();
  try {
    const { position, parked } = await rebuild(client, projection, { signal });
    log.warn({ projection: name, position, parked }, 'projection rebuilt from the log');
  } catch (error) {
    if (!(error instanceof RebuildBusyError))
      log.error({ projection: name }, 'projection rebuild failed; retrying');
    throw error;
  } finally {
    await closeClient(client);
  }
}
