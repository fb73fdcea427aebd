import { queryOptions, useQuery } from '@tanstack/react-query';
import type { Status } from '#server/contract/status.ts';
import { useZone } from '../../lib/hooks/preferences.ts';
import { showCount, showCounted, showTime } from '../../lib/format/show.ts';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Card, Figure } from '../../ui/layout/parts.tsx';
import { Instances } from './instances.tsx';
import { Jobs } from './jobs.tsx';
import { Projections } from './projections.tsx';
import { Sinks } from './sinks.tsx';
import { Upstreams } from './upstreams.tsx';
import { api } from '../../lib/api/api.ts';

export function StatusPage() {
  const query = useQuery(statusQuery);
  const zone = useZone();
  return (
    <>
      <PageHead
        title="Status"
        about={
          query.data === undefined
            ? 'Processes, database and projections of this relay.'
            : `Last updated ${showTime(query.data.now, zone, 'time')}. Refreshes every 5 s.`
        }
      />
      <Loaded query={query} title="Couldn’t load the status" height="h-[40rem]">
        {(status) => (
          <div className="flex flex-col gap-5">
            {status.server.store !== 'up' && <StoreDown />}
            {status.server.unapplied.length > 0 && <Outdated subjects={status.server.unapplied} />}
            <Card flush>
              <Figures status={status} />
            </Card>
            <Instances instances={status.instances} current={status.server.instance} />
            <Projections projections={status.projections} />
            <Jobs jobs={status.jobs} />
            {status.sinks.length > 0 && <Sinks sinks={status.sinks} />}
            <Upstreams upstreams={status.upstreams} />
          </div>
        )}
      </Loaded>
    </>
  );
}

function StoreDown() {
  return (
    <p role="alert" className="rounded-lg border border-warn bg-warn-soft px-4 py-3 text-warn">
      This server can’t write to the event log. New requests are rejected with 503 and Retry-After until it
      recovers. Nothing is relayed unrecorded.
    </p>
  );
}

function Outdated({ subjects }: { subjects: readonly string[] }) {
  return (
    <p role="alert" className="rounded-lg border border-warn bg-warn-soft px-4 py-3 text-warn">
      A newer version of Daybook has changed <code className="font-mono text-xs">{subjects.join(', ')}</code>.
      This server is of the version before and rejects calls that depend on them with 503{' '}
      <code className="font-mono text-xs">relay_outdated</code>. Update it.
    </p>
  );
}

function Figures({ status: { version, postgres, log, server, projections } }: { status: Status }) {
  const zone = useZone();
  const behind = Math.max(
    0,
    ...projections.filter(({ state }) => state === 'live').map((each) => each.behind),
  );
  return (
    <div className="grid grid-cols-2 divide-line md:grid-cols-3 md:divide-x lg:grid-cols-5">
      <Figure
        label="Events in the log"
        value={showCount(log.position)}
        note={log.at === null ? 'None yet' : `Last at ${showTime(log.at, zone, 'time')}`}
      />
      <Figure label="Projection lag" value={showCounted(behind, 'event')} note="Slowest projection" />
      <Figure label="Running requests" value={showCount(server.running)} note="On this server" />
      <Figure label="Live feed clients" value={showCount(server.viewers)} note="On this server" />
      <Figure label="Version" value={version} note={`PostgreSQL ${postgres}`} />
    </div>
  );
}

const REFRESH_MS = 5_000;

/** The system status. Polled, because it is not in the event log. */
export const statusQuery = queryOptions({
  queryKey: ['status'],
  queryFn: ({ signal }) => api<Status>('GET', '/api/v1/status', undefined, signal),
  refetchInterval: REFRESH_MS,
  staleTime: REFRESH_MS,
});
