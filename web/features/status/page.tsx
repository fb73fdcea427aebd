import { useQuery } from '@tanstack/react-query';
import type { Status } from '#server/contract/status.ts';
import { useZone } from '../../lib/preferences.ts';
import { showCount, showCounted, showTime } from '../../lib/show.ts';
import { Loaded } from '../../ui/loaded.tsx';
import { PageHead } from '../../ui/page-head.tsx';
import { Card, Figure } from '../../ui/parts.tsx';
import { Instances } from './instances.tsx';
import { Projections } from './projections.tsx';
import { statusQuery } from './status-query.ts';
import { Upstreams } from './upstreams.tsx';

export function StatusPage() {
  const query = useQuery(statusQuery);
  const zone = useZone();
  return (
    <>
      <PageHead
        title="Status"
        about={
          query.data === undefined
            ? 'The processes and the store behind this relay.'
            : `As of ${showTime(query.data.now, zone, 'time')}, every five seconds while you look.`
        }
      />
      <Loaded query={query} title="The status could not be loaded" height="h-[40rem]">
        {(status) => (
          <div className="flex flex-col gap-5">
            {status.server.store !== 'up' && <StoreAway />}
            <Card flush>
              <Figures status={status} />
            </Card>
            <Instances instances={status.instances} answering={status.server.instance} />
            <Projections projections={status.projections} />
            <Upstreams upstreams={status.upstreams} />
          </div>
        )}
      </Loaded>
    </>
  );
}

function StoreAway() {
  return (
    <p role="alert" className="rounded-lg border border-warn bg-warn-soft px-4 py-3 text-warn">
      This server can't write to the log at the moment. New calls are answered with 503 and a hint to retry
      until it can; nothing is relayed unrecorded.
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
        note={log.at === null ? 'none yet' : `last at ${showTime(log.at, zone, 'time')}`}
      />
      <Figure label="Behind the log" value={showCounted(behind, 'event')} note="the slowest projection" />
      <Figure label="Running calls" value={showCount(server.running)} note="on this server" />
      <Figure label="Live feeds" value={showCount(server.viewers)} note="open on this server" />
      <Figure label="Daybook" value={version} note={`PostgreSQL ${postgres}`} />
    </div>
  );
}
