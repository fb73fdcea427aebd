import { z } from 'zod';
import { Control, Count, Id, Pseudonym } from '#db/events/parts.ts';
import { QUOTA_WINDOWS } from '#db/limits/limits.ts';
import { QUOTA_METERS } from '#db/limits/meters.ts';
import { holderName, PER_NAMES, subjectPrefix } from '#db/limits/subjects.ts';

/** Why usage was adjusted, for the people who read the log later. */
export const AdjustmentReason = z.string().trim().min(1).max(200);
/** Units of a meter to add to usage; below zero they are given back. */
export const AdjustmentAmount = z.int().refine((amount) => amount !== 0, 'must not be 0');

/**
 * An administrator changed the usage of one quota in one window: of the key's quota if it names a key, of the
 * parent account's if it names that, and otherwise of the account's; of one end user, session or tag if it
 * names one. It was applied to the enforced limit in the transaction that appended it.
 */
export const QuotaAdjusted = Control.extend({
  type: z.literal('quota.adjusted'),
  account: Id,
  key: Id.optional(),
  parent: Id.optional(),
  end_user: Pseudonym.optional(),
  session: Pseudonym.optional(),
  tag: Pseudonym.optional(),
  meter: z.enum(QUOTA_METERS),
  amount: AdjustmentAmount,
  window: z.enum(QUOTA_WINDOWS),
  /** The window's first minute since 1970, and the control event that last reset it, or 0. */
  window_start: Count,
  reset_position: Count,
  reason: AdjustmentReason,
});

/** The subject whose quota was adjusted, by the name under which its limits are kept. */
export function adjustedSubject(event: Omit<z.infer<typeof QuotaAdjusted>, 'type'>): string {
  const { key } = event;
  const account = event.parent ?? event.account;
  for (const per of PER_NAMES) {
    const pseudonym = event[per];
    if (pseudonym !== undefined) return `${subjectPrefix(per, account, key ?? null)}${pseudonym}`;
  }
  return key === undefined ? holderName('account', account) : holderName('key', key);
}
