import { Status } from '#server/contract/status.ts';
import type { ClientBase } from 'pg';
import { readService } from '#db/instances/service-state.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { type ApiRoute, ADMINISTRATORS_AND_AUDITORS, route } from '#server/dashboard/gate.ts';
import { holderOf, withReadSlot } from '#server/read/api.ts';
import type { Source } from '#server/read/store.ts';
import { sinkRow } from '#server/dashboard/sinks/list.ts';
import { listUpstreams } from '#server/dashboard/upstreams/list.ts';
import { VERSION } from '#server/process/version.ts';
import { ApiError } from '#server/errors/api-error.ts';

/** No table of a projection is asked: how they are is to be seen when one of them is gone. */
const SERVICE: Source = { projection: 'directory', tables: [] };

/** Their number is that of the subjects of a newer version's changes. */
const UNAPPLIED_SHOWN_MAX = 20;

type Read = Pick<Status, 'now' | 'log' | 'instances' | 'projections' | 'jobs' | 'sinks' | 'postgres'>;

/** How the service is: its processes, its log, its tables, its upstreams. */
export function statusRoutes({ relay, reads, config, viewers }: Dashboard): ApiRoute[] {
  return [
    route(
      'get',
      '/api/v1/status',
      'audit:read',
      ADMINISTRATORS_AND_AUDITORS,
      { reply: Status },
      async (_call, who) => {
        const read = await withReadSlot(reads, holderOf(who), () => reads.read(SERVICE, readStatus));
        if (read instanceof ApiError) return read;
        const { appender } = relay.instance;
        return {
          object: 'status',
          version: VERSION,
          ...read.found,
          server: {
            instance: appender.instance,
            running: relay.running.size,
            viewers: viewers(),
            store: appender.mode,
            unapplied: relay.readModel.unapplied.all
              .slice(0, UNAPPLIED_SHOWN_MAX)
              .map(({ subject }) => subject),
          },
          upstreams: listUpstreams(relay, config, performance.now()).map(
            ({ name, source, terms: { base_url, package: pkg, models } }) => ({
              name,
              origin:
                source === 'demo'
                  ? 'built in'
                  : base_url === undefined
                    ? (pkg ?? '')
                    : new URL(base_url).origin,
              models,
            }),
          ),
        } satisfies Status;
      },
    ),
  ];
}

async function readStatus(client: ClientBase): Promise<Read> {
  const { now, postgres, position, at, instances, projections, jobs, sinks } = await readService(client);
  return {
    now: now.toISOString(),
    postgres,
    log: { position, at: at?.toISOString() ?? null },
    instances: instances.map(({ started_at, heartbeat_at, ...instance }) => ({
      ...instance,
      started_at: started_at.toISOString(),
      heartbeat_at: heartbeat_at.toISOString(),
    })),
    projections: projections.map(({ projection, position: reached, behind, as_of, parked, state }) => ({
      name: projection,
      position: reached,
      behind,
      as_of: as_of?.toISOString() ?? null,
      parked,
      state,
    })),
    jobs: jobs.map(({ task, failures, failing_since, reason, succeeded_at }) => ({
      name: task,
      state: failures === 0 ? 'ok' : 'failing',
      failures,
      failing_since: failing_since?.toISOString() ?? null,
      reason: failures === 0 ? null : reason,
      succeeded_at: succeeded_at?.toISOString() ?? null,
    })),
    sinks: sinks.map(sinkRow),
  };
}
