import type { UsageSource } from '#db/events/endings.ts';
import { isEstimated } from '#db/fold/estimated.ts';
import { showPercent } from './show.ts';

/** How figures of usage are marked whose usage the provider did not report. Pure. */

export const SOURCE_WORDS: Record<UsageSource, string> = {
  provider: 'Reported by the provider',
  counted: 'Counted by the relay (no provider report)',
  estimated: 'Estimated by the relay (no provider report)',
  none: 'No usage',
  implausible: 'Estimated by the relay (implausible provider report)',
};

/** Why the figures of a request are estimates; null: they are the provider's. */
export const estimateOf = (source: UsageSource | null): string | null =>
  source !== null && isEstimated(source) ? SOURCE_WORDS[source] : null;

/** The estimated part of a sum of requests: its cost, or the number of requests where they cost nothing. */
export type EstimatedPart = {
  cost_nanousd: string | bigint;
  estimated_cost_nanousd: string | bigint;
  requests?: number;
  estimated?: number;
};

/** "12% estimated"; null where nothing is. */
export function estimatedShare(sum: EstimatedPart): string | null {
  const [cost, part] = [Number(sum.cost_nanousd), Number(sum.estimated_cost_nanousd)];
  const { requests = 0, estimated = 0 } = sum;
  const share = cost > 0 ? part / cost : requests > 0 ? estimated / requests : 0;
  if (share <= 0) return null;
  return share < 0.001 ? 'under 0.1% estimated' : `${showPercent(share)} estimated`;
}
