import type { Freshness } from '#server/contract/parts.ts';
import { BEHIND_SHOWN_MIN } from '../../lib/api/queries.ts';
import { showCounted } from '../../lib/format/show.ts';
import { When } from '../../ui/when.tsx';

/** A notice if figures are delayed or incomplete. */
export function FreshnessNotice({
  report: { as_of, behind, parked },
  isMissing,
}: {
  report: Freshness;
  isMissing: boolean;
}) {
  if (!isMissing && behind < BEHIND_SHOWN_MIN && parked === 0) return null;
  return (
    <p role="status" className="rounded-lg border border-warn bg-warn-soft px-4 py-2 text-warn">
      {(isMissing || behind >= BEHIND_SHOWN_MIN) && (
        <>
          Figures are delayed by {showCounted(behind, 'event')}
          {as_of !== null && (
            <>
              {' '}
              (as of <When time={as_of} />)
            </>
          )}{' '}
          and update automatically.{' '}
        </>
      )}
      {parked > 0 && `Not included: ${showCounted(parked, 'event')} that could not be processed.`}
    </p>
  );
}
