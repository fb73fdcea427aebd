import { z } from 'zod';
import { AccountName, Control, Id } from '#db/events/parts.ts';

/** Accounts, but for their terms. Pure. */

export const AccountRegistered = Control.extend({
  type: z.literal('account.registered'),
  account: Id,
  name: AccountName,
});
export const AccountSuspended = Control.extend({ type: z.literal('account.suspended'), account: Id });
export const AccountReinstated = Control.extend({ type: z.literal('account.reinstated'), account: Id });

/** The account that the calls of this one are charged to as well; null: none. */
export const AccountParentChanged = Control.extend({
  type: z.literal('account.parent_changed'),
  account: Id,
  parent: Id.nullable(),
});

/** Why a balance was topped up: a payment, an invoice. No two top-ups of an account have the same. */
export const TopUpReference = z.string().trim().min(1).max(200);
/** Money was added to the prepaid balance of an account. */
export const AccountToppedUp = Control.extend({
  type: z.literal('account.topped_up'),
  account: Id,
  amount_nanousd: z.int().min(1),
  reference: TopUpReference,
});
