import { z } from 'zod';
import { Control, Count, Id, RequestId } from '#db/events/parts.ts';
import { QUOTA_WINDOWS } from '#db/limits/limits.ts';
import { QUOTA_METERS } from '#db/limits/meters.ts';

/** Why usage was adjusted, for the people who read the log later. */
export const AdjustmentReason = z.string().trim().min(1).max(200);
/** Units of a meter to add to usage; below zero they are given back. */
export const AdjustmentAmount = z.int().refine((amount) => amount !== 0, 'must not be 0');

/**
 * An administrator changed the usage of one quota in one window: of the key's quota if it names a key, and
 * otherwise of the account's. It was applied to the enforced limit in the transaction that appended it.
 */
export const UsageAdjusted = Control.extend({
  type: z.literal('usage.adjusted'),
  account: Id,
  key: Id.optional(),
  meter: z.enum(QUOTA_METERS),
  amount: AdjustmentAmount,
  window: z.enum(QUOTA_WINDOWS),
  /** The window's first minute since 1970, and the control event that last reset it, or 0. */
  window_start: Count,
  reset_position: Count,
  /** The request whose charge it corrects. */
  corrects: RequestId.optional(),
  reason: AdjustmentReason,
});

/** The account or key whose quota was adjusted, by the name under which its limits are kept. */
export function adjustedSubject({
  account,
  key,
}: Pick<z.infer<typeof UsageAdjusted>, 'account' | 'key'>): string {
  return key === undefined ? `account/${account}` : `key/${key}`;
}
