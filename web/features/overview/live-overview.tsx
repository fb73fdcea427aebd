import { useQuery } from '@tanstack/react-query';
import type { LiveView } from '../../lib/feed/live-store.ts';
import { keysQuery } from '../../lib/api/names.ts';
import { requestCountOf } from '../../lib/feed/tally.ts';
import { Card } from '../../ui/layout/parts.tsx';
import { RequestsChart } from './requests-chart.tsx';
import { Figures } from './figures.tsx';
import { FirstUse } from './first-use.tsx';
import { Groups } from './groups.tsx';
import { RecentRequests } from './recent-requests.tsx';
import type { Overview } from './overview-query.ts';
import { Quotas } from './quotas.tsx';
import { Running } from './running.tsx';
import { useLive } from './use-live.ts';
import { FreshnessNotice } from './freshness-notice.tsx';

/** Figures of one filter and range, kept up to date by the live feed. */
export function LiveOverview({ base, isPaused }: { base: Overview; isPaused: boolean }) {
  const view = useLive(base, isPaused);
  const neverUsed = useNeverUsed(base, view);
  if (neverUsed) return <FirstUse />;
  return (
    <div className="flex flex-col gap-4 *:min-w-0">
      <FreshnessNotice report={base.series} isMissing={view.isMissing} />
      <Figures view={view} report={base.series} />
      <RequestsChart buckets={view.buckets} bucketMs={base.bucketMs} />
      <div className="grid gap-4 *:min-w-0 lg:grid-cols-2">
        <Running
          calls={view.running}
          count={view.runningCount}
          hasMore={view.hasMoreRunning}
          filter={base.filter}
        />
        <Quotas account={base.filter.account} />
      </div>
      {base.isWhole ? (
        <Card title="By key and model">
          <p className="text-muted">
            Too many keys for this time range. Select an account or a shorter range.
          </p>
        </Card>
      ) : (
        <div className="grid gap-4 *:min-w-0 lg:grid-cols-2">
          <Groups
            by="key"
            ranking={view.byKey}
            omitted={base.groups.rows_omitted ?? 0}
            filter={base.filter}
            range={base.range}
          />
          <Groups
            by="model"
            ranking={view.byModel}
            omitted={base.groups.rows_omitted ?? 0}
            filter={base.filter}
            range={base.range}
          />
        </div>
      )}
      <RecentRequests calls={view.last} endings={view.endings} filter={base.filter} />
    </div>
  );
}

/** Whether none of the visible keys was ever used. */
function useNeverUsed({ filter }: Overview, { total, last, runningCount }: LiveView): boolean {
  const keys = useQuery(keysQuery).data;
  const isNarrow = Object.keys(filter).length > 0;
  const isQuiet = requestCountOf(total) === 0 && last.length === 0 && runningCount === 0;
  return (
    !isNarrow &&
    isQuiet &&
    keys !== undefined &&
    keys.every(({ last_used_at, month }) => last_used_at === null && month.requests === 0)
  );
}
