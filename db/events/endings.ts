import { namesByCode } from '#db/events/codes.ts';
import type { USAGE_SOURCE_NAMES } from '#db/events/usage-details.ts';

/** How requests end, as the log stores it. Pure. */

/** Why a request ended. The codes are stored in the log and never change meaning. */
export const END_REASONS = {
  completed: 1,
  client_disconnected: 2,
  upstream_disconnected: 3,
  upstream_error: 4,
  upstream_rejected: 5,
  upstream_unreachable: 6,
  timed_out: 7,
  service_unavailable: 8,
  abandoned: 9,
  internal_error: 10,
  /** What the key may do was changed while it ran. */
  access_revoked: 11,
  /** The reply used up what a hard quota had left. */
  quota_exceeded: 12,
} as const;
export type EndReason = keyof typeof END_REASONS;
export const END_REASON_OF = namesByCode(END_REASONS);

/**
 * Where the token counts of an ending come from: the provider's report, our count, or an estimate; or our
 * count or an estimate in place of a report that was not possible (`implausible`).
 */
export const USAGE_SOURCES = {
  provider: 1,
  counted: 2,
  estimated: 3,
  none: 4,
  implausible: 5,
} as const satisfies Record<(typeof USAGE_SOURCE_NAMES)[number], number>;
export type UsageSource = keyof typeof USAGE_SOURCES;
export const USAGE_SOURCE_OF = namesByCode(USAGE_SOURCES);
