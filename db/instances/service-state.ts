import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { DEAD_AFTER_MS } from '#db/bounds.ts';
import { SHARD } from '#db/log/append.ts';
import { type ProjectionStatus, readProjectionStatus } from '#db/projections/state.ts';
import { db, onlyRowOf, rowsOf } from '#db/schema/query.ts';
import { readSinks, type SinkStatus } from '#db/spend/sink-status.ts';

/** A registered instance. */
export type InstanceState = {
  id: number;
  name: string;
  kind: 'server' | 'worker' | 'other';
  started_at: Date;
  heartbeat_at: Date;
  /** `late`: no heartbeat for so long that its peers declare it dead. */
  state: 'live' | 'late';
  dropped_lines: number;
  output_failure: string | null;
};

/** A background job and how its runs end. */
export type JobState = {
  task: string;
  /** Failed runs in a row. */
  failures: number;
  failing_since: Date | null;
  reason: string | null;
  succeeded_at: Date | null;
};

/** How the service is by the database: its processes, its log, its projections, its jobs, its sinks. */
export type ServiceState = {
  now: Date;
  postgres: string;
  /** The newest event of the log, and its time. */
  position: number;
  at: Date | null;
  instances: InstanceState[];
  projections: ProjectionStatus[];
  jobs: JobState[];
  sinks: SinkStatus[];
};

/** Reads it for the status page and for metrics. */
export async function readService(client: ClientBase): Promise<ServiceState> {
  const { now, postgres, position, at } = await onlyRowOf(
    client,
    db.selectNoFrom(({ fn, selectFrom }) => [
      fn<Date>('clock_timestamp').as('now'),
      sql<string>`current_setting('server_version')`.as('postgres'),
      sql<string>`daybook.head(${SHARD})`.as('position'),
      selectFrom('daybook.log_batch')
        .select('at')
        .where('shard', '=', SHARD)
        .orderBy('last_position', 'desc')
        .limit(1)
        .as('at'),
    ]),
  );
  const instances = await rowsOf(
    client,
    db.selectFrom('daybook.instance').selectAll().where('closed_at', 'is', null).orderBy('id'),
  );
  const projections = await readProjectionStatus(client);
  const jobs = await rowsOf(client, db.selectFrom('daybook.job_status').selectAll().orderBy('task'));
  const sinks = await readSinks(client);
  return {
    now,
    postgres,
    position: Number(position),
    at,
    instances: instances.map(({ id, name, started_at, heartbeat_at, dropped_lines, output_failure }) => ({
      id,
      name,
      kind: kindOf(name),
      started_at,
      heartbeat_at,
      state: now.getTime() - heartbeat_at.getTime() > DEAD_AFTER_MS ? 'late' : 'live',
      dropped_lines: Number(dropped_lines),
      output_failure,
    })),
    projections,
    jobs,
    sinks,
  };
}

/** The first word of an instance's registered name is its kind. */
function kindOf(name: string): InstanceState['kind'] {
  const [kind] = name.split(' ', 1);
  return kind === 'server' || kind === 'worker' ? kind : 'other';
}
