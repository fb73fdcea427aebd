import type { UsageSource } from '#db/events/endings.ts';
import { isEstimated } from '#db/fold/estimated.ts';
import { showCost, showCounted, showPercent } from './show.ts';

/** How figures of usage are marked that are not the provider's: estimated or corrected ones. Pure. */

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

/** A sum of requests, with its estimated part and that of corrections. */
export type CostSum = {
  cost_nanousd: string | bigint;
  estimated_cost_nanousd: string | bigint;
  /** The numbers of requests, for a sum of 0. */
  requests?: number;
  estimated?: number;
  corrections: number;
  correction_cost_nanousd: string | bigint;
};

/** "12% estimated"; null where nothing is. */
export function estimatedShare(sum: CostSum): string | null {
  const [cost, part] = [Number(sum.cost_nanousd), Number(sum.estimated_cost_nanousd)];
  const { requests = 0, estimated = 0 } = sum;
  const share = cost > 0 ? part / cost : requests > 0 ? estimated / requests : 0;
  if (share <= 0) return null;
  return share < 0.001 ? 'under 0.1% estimated' : `${showPercent(share)} estimated`;
}

/** "2 corrections (−$0.42)"; null where nothing was corrected. */
export function correctedPart({ corrections, correction_cost_nanousd: added }: CostSum): string | null {
  if (corrections === 0) return null;
  const size = BigInt(added) < 0n ? -BigInt(added) : BigInt(added);
  // The sign stays on the line of its amount.
  const sign = `${BigInt(added) < 0n ? '−' : '+'}\u2060`;
  return `${showCounted(corrections, 'correction')} (${sign}${showCost(size)})`;
}
