import type { ForecastRow, LimitRow } from '#server/contract/limits.ts';
import { showAmount } from '../../lib/format/limits.ts';
import { showShort } from '../../lib/format/show.ts';
import { QuotaBar } from '../../ui/quota-bar.tsx';

/** One limit with its usage and how it is enforced. */
export function LimitItem({ row, forecast }: { row: LimitRow; forecast: ForecastRow | undefined }) {
  return <QuotaBar row={row} forecast={forecast} isOwnerKnown note={enforcementOf(row)} />;
}

function enforcementOf({ meter, window, enforcement, overdraft, overdraft_max: most }: LimitRow): string {
  if (enforcement === 'observe') return 'Observed: rejections are recorded, not enforced.';
  if (meter === 'concurrent') return 'Frees up as requests finish.';
  if (window === 'minute') return 'Resets every minute.';
  if (overdraft > 0) return `Exceeded by ${showAmount(meter, overdraft, showShort)}.`;
  if (enforcement === 'hard') return 'Hard limit: never exceeded. Replies are capped at the remaining quota.';
  if (most === 0) return 'Hard limit: each request is counted before it starts.';
  const byMost = most === null ? '' : ` by up to ${showAmount(meter, most, showShort)}`;
  return `Soft limit: in-flight requests finish and may exceed it${byMost}.`;
}
