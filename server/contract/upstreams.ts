import { z } from 'zod';
import { UpstreamName } from '#db/events/parts.ts';
import type { RelayedRoute } from '#db/limits/limits.ts';
import { CredentialLabel, type Dialect, UpstreamTerms } from '#db/events/upstream-events.ts';
import type { Change } from '#server/contract/keys.ts';
import type { CircuitStatus } from '#server/upstreams/circuit-breaker.ts';

/**
 * Contract for upstreams and their credentials. Changes are for administrators and return a `Change`. Pure.
 */

const SECRET_CHARACTERS_MAX = 16_384;

/**
 * `GET /api/v1/upstreams`, for administrators and auditors, in order of precedence: the first that lists a
 * model gets its calls.
 */
export type UpstreamList = {
  object: 'list';
  data: UpstreamRow[];
  /** Per dialect: the default base URL, and the supported routes. */
  dialects: Record<Dialect, { base_url: string | null; routes: readonly RelayedRoute[] }>;
};

export type UpstreamRow = {
  name: string;
  /** Only upstreams of the log can be changed here; `demo` is built in. */
  source: 'log' | 'environment' | 'demo';
  terms: UpstreamTerms;
  /** The supported routes. */
  routes: RelayedRoute[];
  /** `no_credential`: none of its credentials can be decrypted on this server, so it gets no calls. */
  state: 'in_use' | 'paused' | 'no_credential';
  /** Health of the endpoint, as seen by the calls of this server process. */
  health: CircuitStatus;
  credentials: CredentialRow[];
  /** The position of its newest event; null if it isn't in the log. */
  position: number | null;
};

/** A credential of an upstream. Its secret is never in a reply. */
export type CredentialRow = {
  /** Null if it isn't in the log: a credential from the environment, or no credential at all. */
  id: string | null;
  source: 'log' | 'environment' | 'none';
  label: string;
  /** Empty if the secret is too short to show a part. */
  last4: string;
  added_at: string | null;
  /** Health as seen by the calls of this server process; null: it can't be decrypted there. */
  health: CircuitStatus | null;
};

const Name = z
  .string()
  .refine(
    (name) => UpstreamName.safeParse(name).success,
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
export type CreatedCredential = Change & { object: 'credential'; id: string; last4: string };
/** `DELETE /api/v1/upstreams/:upstream/credentials/:credential`: removes it permanently. */

/**
 * `POST /api/v1/upstreams/:upstream/test`, for administrators: requests its list of models with each
 * credential. A success closes its circuit breaker.
 */
export type UpstreamTestResult = { object: 'upstream_test'; data: CredentialTestResult[] };
export type CredentialTestResult = {
  credential: string | null;
  label: string;
  /** `unknown`: the upstream replies, but only a call shows whether the credential works. */
  outcome: 'valid' | 'unknown' | 'invalid';
  /** Number of listed models; null if there was no list. */
  models: number | null;
  duration_ms: number;
  /** One sentence for people; null on success. */
  error: string | null;
};
/** `GET /api/v1/upstreams/:upstream/models`, for administrators: the upstream's current list. */
export type UpstreamModels = { object: 'list'; data: string[]; error: string | null };
