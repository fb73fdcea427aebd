import { z } from 'zod';
import { ProviderName } from '#db/events/identity/identity-events.ts';
import { Control, Digest, Id, KeyName, Time } from '#db/events/parts.ts';

/** Keys, but for their terms. Pure. */

export const KeyCreated = Control.extend({
  type: z.literal('key.created'),
  account: Id,
  key: Id,
  name: KeyName,
  digest: Digest,
  last4: z.string().length(4),
  expires_at: Time.optional(),
  /** The workload whose short-lived keys it stands for. It has no secret of its own then. */
  workload: ProviderName.optional(),
});
export const KeyRotated = Control.extend({
  type: z.literal('key.rotated'),
  account: Id,
  key: Id,
  digest: Digest,
  last4: z.string().length(4),
  /** When the old secret stops being valid; absent: it ended with this event. */
  overlap_ends_at: Time.optional(),
});
export const KeyRevoked = Control.extend({ type: z.literal('key.revoked'), account: Id, key: Id });

/** The moment that it ends at has passed; it needs no event to take effect. */
export const KeyExpired = Control.extend({ type: z.literal('key.expired'), account: Id, key: Id });

export const KeyRenamed = Control.extend({
  type: z.literal('key.renamed'),
  account: Id,
  key: Id,
  name: KeyName,
});
