import type { UsageReport } from '#server/contract/usage.ts';
import { showCounted } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { When } from '../../ui/when.tsx';

/** The exact range of the figures and their freshness. */
export function Freshness({
  report: { as_of, behind, parked, from, to },
  isLoading,
  onRefresh,
}: {
  report: UsageReport;
  isLoading: boolean;
  onRefresh: () => void;
}) {
  return (
    <div className="flex flex-wrap items-center justify-between gap-2 text-xs text-muted">
      <p>
        <When time={from} /> – <When time={to} />
        {as_of !== null && (
          <>
            {' '}
            · Updated <When time={as_of} form="time" />
          </>
        )}
        {behind > 0 && ` · ${showCounted(behind, 'newer event')} not included yet`}
        {parked > 0 && ` · ${showCounted(parked, 'event')} could not be processed`}
      </p>
      <Button icon="refresh" look="quiet" busy={isLoading} onClick={onRefresh}>
        Refresh
      </Button>
    </div>
  );
}
