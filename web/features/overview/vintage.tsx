import type { Freshness } from '#server/contract/parts.ts';
import { BEHIND_TOLD_MIN } from '../../lib/behind.ts';
import { showCounted } from '../../lib/show.ts';
import { When } from '../../ui/when.tsx';

/** Says where figures are not of this moment, or not whole. */
export function Vintage({
  report: { as_of, behind, parked },
  isMissing,
}: {
  report: Freshness;
  isMissing: boolean;
}) {
  if (!isMissing && behind < BEHIND_TOLD_MIN && parked === 0) return null;
  return (
    <p role="status" className="rounded-lg border border-warn bg-warn-soft px-4 py-2 text-warn">
      {(isMissing || behind >= BEHIND_TOLD_MIN) && (
        <>
          As of {as_of === null ? 'the beginning' : <When time={as_of} />}, {showCounted(behind, 'event')}{' '}
          behind. The figures follow by themselves.{' '}
        </>
      )}
      {parked > 0 &&
        `${showCounted(parked, 'event')} could not be taken in and ${parked === 1 ? 'is' : 'are'} missing from the figures.`}
    </p>
  );
}
