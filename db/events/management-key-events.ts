import { z } from 'zod';
import { MANAGEMENT_SCOPES } from '#db/events/management-scopes.ts';
import { Control, Digest, Id, KeyName, Time } from '#db/events/parts.ts';

/** Keys of the management API. They call no model. Pure. */

export const ManagementScopes = z
  .array(z.enum(MANAGEMENT_SCOPES))
  .min(1)
  .max(MANAGEMENT_SCOPES.length)
  .refine((scopes) => new Set(scopes).size === scopes.length, 'must be different scopes');

export const ManagementKeyCreated = Control.extend({
  type: z.literal('management_key.created'),
  management_key: Id,
  name: KeyName,
  digest: Digest,
  last4: z.string().length(4),
  scopes: ManagementScopes,
  /** The one account that it manages; absent: the whole installation. */
  account: Id.optional(),
  expires_at: Time.optional(),
});
export const ManagementKeyRevoked = Control.extend({
  type: z.literal('management_key.revoked'),
  management_key: Id,
  account: Id.optional(),
});
