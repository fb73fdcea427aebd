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
