import { z } from 'zod';
import { oneLine, ProviderName } from '#db/events/identity/identity-events.ts';
import { Control, Id, RequestId, Time } from '#db/events/parts.ts';

/** Workloads: machines that exchange a token of their platform for a short-lived key. Pure. */

/** Rules of one installation; each has a key of its own. */
export const WORKLOADS_MAX = 100;
/** How long a key lasts at most: as long as a token of most platforms. */
export const KEY_MINUTES_MAX = 60;
export const CLAIM_CHARACTERS_MAX = 500;

/** A value that a claim may have. One that ends in `*` after `/` or `:` stands for all that begin like it. */
const ClaimValue = oneLine(CLAIM_CHARACTERS_MAX).regex(
  /^[^*]*(?:[/:]\*)?$/,
  'may have "*" only at its end, after "/" or ":"',
);

/** A claim of the token, by its name or the path to it, and the values that it may have. */
export const WorkloadCondition = z.strictObject({
  claim: oneLine(200),
  values: z.array(ClaimValue).min(1).max(50),
});
export type WorkloadCondition = z.infer<typeof WorkloadCondition>;

/** A public key in the format of RFC 7517. Others of its fields, private ones above all, are refused. */
export const PublicJwk = z.strictObject({
  kty: z.enum(['RSA', 'EC', 'OKP']),
  kid: z.string().max(200).optional(),
  alg: z.string().max(20).optional(),
  use: z.literal('sig').optional(),
  key_ops: z.array(z.literal('verify')).optional(),
  crv: z.string().max(20).optional(),
  n: z.string().max(2_000).optional(),
  e: z.string().max(20).optional(),
  x: z.string().max(200).optional(),
  y: z.string().max(200).optional(),
  x5t: z.string().max(100).optional(),
  'x5t#S256': z.string().max(100).optional(),
});

export const WorkloadTerms = z.strictObject({
  /** Who signs the tokens, exactly as their `iss`. */
  issuer: z.url().max(CLAIM_CHARACTERS_MAX),
  /** One of the audiences of each token. */
  audience: oneLine(CLAIM_CHARACTERS_MAX),
  /** All of them have to hold. One at least: an issuer such as GitHub signs for everyone. */
  conditions: z.array(WorkloadCondition).min(1).max(10),
  key_minutes: z.int().min(1).max(KEY_MINUTES_MAX),
  /** Whether a token is exchanged once at most; false: as often as wanted until it expires. */
  single_use: z.boolean(),
  /** The keys of an issuer that can't be reached, such as a cluster's; null: those that it publishes. */
  jwks: z.array(PublicJwk).min(1).max(20).nullable(),
  /** `private`: the issuer may be on this machine or in a private network. */
  network: z.enum(['public', 'private']),
});
export type WorkloadTerms = z.infer<typeof WorkloadTerms>;

const workload = { workload: ProviderName, account: Id, key: Id };

/** A rule was added or changed; all terms, in place of those before. Its key and account never change. */
export const WorkloadConfigured = Control.extend({
  type: z.literal('workload.configured'),
  ...workload,
  terms: WorkloadTerms,
});
/** Its key is revoked with it. */
export const WorkloadRemoved = Control.extend({ type: z.literal('workload.removed'), ...workload });
export const WORKLOAD_EVENTS = [WorkloadConfigured, WorkloadRemoved] as const;

/**
 * A token was exchanged for a short-lived key. It changes nothing and is in no stream, so that an exchange
 * costs one line of the log, which is archived with its partition.
 */
export const WorkloadExchanged = z.object({
  type: z.literal('workload.exchanged'),
  /** The request that exchanged it. */
  request: RequestId,
  ...workload,
  /** The public id of the short-lived key, which its secret contains. */
  exchange: Id,
  expires_at: Time,
  issuer: z.string().max(CLAIM_CHARACTERS_MAX),
  /** The claims that the conditions of the rule used. */
  claims: z.record(z.string().max(200), z.string().max(CLAIM_CHARACTERS_MAX)),
});
