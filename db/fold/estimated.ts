import type { UsageSource } from '#db/events/endings.ts';

/**
 * Whether usage is an estimate: the provider did not report it, and it was counted or guessed. Every figure
 * that shows or sums it is marked. Pure, and shared with the dashboard.
 */
export function isEstimated(source: UsageSource | null): boolean {
  return source !== null && source !== 'provider' && source !== 'none';
}
