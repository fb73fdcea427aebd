import type { UsageReport } from '#server/contract/usage.ts';
import { showCount, showCounted } from '../../lib/show.ts';
import { Button } from '../../ui/button.tsx';
import { When } from '../../ui/when.tsx';

/** Of what moment the figures are, and of exactly what time. */
export function Vintage({
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
        From <When time={from} /> to <When time={to} />
        {as_of !== null && (
          <>
            , as of <When time={as_of} form="time" />
          </>
        )}
        {behind > 0 &&
          `; ${showCount(behind)} newer ${behind === 1 ? 'event is' : 'events are'} still to be counted`}
        {parked > 0 &&
          `; ${showCounted(parked, 'event')} could not be taken in and ${parked === 1 ? 'is' : 'are'} missing`}
        .
      </p>
      <Button icon="refresh" look="quiet" busy={isLoading} onClick={onRefresh}>
        Count again
      </Button>
    </div>
  );
}
