import { z } from 'zod';
import { ChangeReply } from '#server/contract/parts.ts';
import { UPSTREAM_NAME } from '#db/events/parts.ts';
import { CredentialLabel, DIALECTS, UpstreamTerms } from '#db/events/upstream-events.ts';
import { RELAYED_ROUTES } from '#db/limits/limits.ts';

/**
 * Contract for upstreams and their credentials. Changes are for administrators and return a `Change`. Pure.
 */

const SECRET_CHARACTERS_MAX = 16_384;

/** The circuit breaker of an endpoint or a credential. */
const UpstreamHealth = z.object({
  state: z.enum(['healthy', 'degraded', 'open', 'half_open']),
  /** The code of the newest failure; null: none since the circuit was last healthy. */
  problem: z.string().nullable(),
  /** Failures and interruptions in a row. */
  failures: z.number(),
  /** How long the circuit stays open; 0 where it is not open. */
  open_ms: z.number(),
  running: z.number(),
});

/** A credential of an upstream. Its secret is never in a reply. */
export const CredentialRow = z.object({
  /** Null if it isn't in the log: a credential from the environment, or no credential at all. */
  id: z.string().nullable(),
  source: z.enum(['log', 'environment', 'none']),
  label: z.string(),
  /** Empty if the secret is too short to show a part. */
  last4: z.string(),
  added_at: z.string().nullable(),
  /** Health as seen by the calls of this server process; null: it can't be decrypted there. */
  health: UpstreamHealth.nullable(),
});
export type CredentialRow = z.infer<typeof CredentialRow>;

export const UpstreamRow = z.object({
  name: z.string(),
  /** Only upstreams of the log can be changed here; `demo` is built in. */
  source: z.enum(['log', 'environment', 'demo']),
  terms: UpstreamTerms,
  /** The supported routes. */
  routes: z.array(z.enum(RELAYED_ROUTES)),
  /** `no_credential`: none of its credentials can be decrypted on this server, so it gets no calls. */
  state: z.enum(['in_use', 'paused', 'no_credential']),
  /** Health of the endpoint, as seen by the calls of this server process. */
  health: UpstreamHealth,
  credentials: z.array(CredentialRow),
  /** The position of its newest event; null if it isn't in the log. */
  position: z.number().nullable(),
  /** Its ETag, for `If-Match`; null if it isn't in the log. */
  version: z.number().nullable(),
});
export type UpstreamRow = z.infer<typeof UpstreamRow>;

/**
 * `GET /api/v1/upstreams`, for administrators and auditors, in order of precedence: the first that lists a
 * model gets its calls.
 */
export const UpstreamList = z.object({
  object: z.literal('list'),
  data: z.array(UpstreamRow),
  /** Per dialect: the default base URL, and the supported routes. */
  dialects: z.record(
    z.enum(DIALECTS),
    z.object({ base_url: z.string().nullable(), routes: z.array(z.enum(RELAYED_ROUTES)).readonly() }),
  ),
});
export type UpstreamList = z.infer<typeof UpstreamList>;

const Name = z
  .string()
  .regex(
    UPSTREAM_NAME,
    'must have 1 to 64 of a-z, 0-9, ".", "_" and "-", and begin with a letter or a digit',
  );
/** `POST /api/v1/upstreams`: starts without credentials. */
export const AddUpstream = z.strictObject({ name: Name, terms: UpstreamTerms });
/** `PATCH /api/v1/upstreams/:upstream`: replaces all terms, or pauses or resumes it. */
export const ChangeUpstream = z
  .strictObject({ terms: UpstreamTerms.optional(), paused: z.boolean().optional() })
  .refine(({ terms, paused }) => (terms === undefined) !== (paused === undefined), {
    path: ['terms'],
    message: 'give exactly one of "terms" and "paused"',
  });
/**
 * `DELETE /api/v1/upstreams/:upstream`: removes it permanently, with its credentials. 409 `not_allowed` if a
 * model would have no other upstream.
 */

/**
 * `POST /api/v1/upstreams/:upstream/credentials` → `Change & {object: 'credential', id, last4}`. The secret
 * is write-only.
 */
export const AddCredential = z.strictObject({
  label: CredentialLabel,
  secret: z.string().min(1, 'is empty').max(SECRET_CHARACTERS_MAX, 'is too long'),
});
export const CreatedCredential = z.object({
  ...ChangeReply.shape,
  object: z.literal('credential'),
  id: z.string(),
  last4: z.string(),
});
export type CreatedCredential = z.infer<typeof CreatedCredential>;
export const CredentialTestResult = z.object({
  credential: z.string().nullable(),
  label: z.string(),
  /** `unknown`: the upstream replies, but only a call shows whether the credential works. */
  outcome: z.enum(['valid', 'unknown', 'invalid']),
  /** Number of listed models; null if there was no list. */
  models: z.number().nullable(),
  duration_ms: z.number(),
  /** One sentence for people; null on success. */
  error: z.string().nullable(),
});
export type CredentialTestResult = z.infer<typeof CredentialTestResult>;
/** `DELETE /api/v1/upstreams/:upstream/credentials/:credential`: removes it permanently. */

/**
 * `POST /api/v1/upstreams/:upstream/test`, for administrators: requests its list of models with each
 * credential. A success closes its circuit breaker.
 */
export const UpstreamTestResult = z.object({
  object: z.literal('upstream_test'),
  data: z.array(CredentialTestResult),
});
export type UpstreamTestResult = z.infer<typeof UpstreamTestResult>;
/** `GET /api/v1/upstreams/:upstream/models`, for administrators: the upstream's current list. */
export const UpstreamModels = z.object({
  object: z.literal('list'),
  data: z.array(z.string()),
  error: z.string().nullable(),
});
export type UpstreamModels = z.infer<typeof UpstreamModels>;
