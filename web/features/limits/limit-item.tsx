import type { LimitRow } from '#server/contract/limits.ts';
import { showAmount } from '../../lib/limit-words.ts';
import { showShort } from '../../lib/show.ts';
import { QuotaBar } from '../../ui/quota-bar.tsx';

/** One limit with its window, and how strictly it is kept. */
export function LimitItem({ row }: { row: LimitRow }) {
  return <QuotaBar row={row} isOwnerKnown note={strictnessOf(row)} />;
}

function strictnessOf({ meter, window, enforcement, overdraft }: LimitRow): string {
  if (meter === 'concurrent') return 'Counts calls that run: each leaves room again when it ends.';
  if (window === 'minute') return 'A rate: of each minute of the clock.';
  if (enforcement === 'hard')
    return 'Exact: never a unit above. A reply is asked to stop where the rest would not do.';
  if (overdraft === 0) return 'Never above: each call is counted before it begins.';
  const most = overdraft === null ? '' : `, by at most ${showAmount(meter, overdraft, showShort)}`;
  return `Soft limit: a call that was admitted runs to its end, and may go above it${most}.`;
}
