import { z } from 'zod';
import { ProviderName } from '#db/events/identity/identity-events.ts';
import { Id } from '#db/events/parts.ts';
import { KEY_MINUTES_MAX, WorkloadTerms } from '#db/events/identity/workload-events.ts';

/** Contract for workloads: machines that exchange tokens for short-lived keys. Pure. */

/** One in `GET /api/v1/workloads`, a list. */
export const WorkloadRow = z.object({
  name: ProviderName,
  account: z.string(),
  account_name: z.string(),
  /** The key whose limits and usage all its short-lived keys have. */
  key: z.string(),
  ...WorkloadTerms.shape,
  /** Short-lived keys that are valid now. */
  live_keys: z.int(),
});
export type WorkloadRow = z.infer<typeof WorkloadRow>;

/** One in `GET /api/v1/workloads/:workload/keys`, a list of the short-lived keys that are valid now. */
export const ShortLivedKeyRow = z.object({
  id: z.string(),
  created_at: z.string(),
  expires_at: z.string(),
});
export type ShortLivedKeyRow = z.infer<typeof ShortLivedKeyRow>;

/**
 * `PUT /api/v1/workloads/:workload`: adds a workload with a key, or replaces its terms. `DELETE` removes it
 * and revokes its key.
 */
export const PutWorkload = z.strictObject({
  account: Id,
  ...WorkloadTerms.shape,
  key_minutes: z.int().min(1).max(KEY_MINUTES_MAX).default(15),
  single_use: z.boolean().default(true),
  jwks: WorkloadTerms.shape.jwks.default(null),
  network: WorkloadTerms.shape.network.default('public'),
});
export type PutWorkload = z.input<typeof PutWorkload>;
