import { z } from 'zod';
import { UpstreamName } from '#db/events/parts.ts';
import type { RelayedRoute } from '#db/limits/limits.ts';
import { CredentialLabel, type Dialect, UpstreamTerms } from '#db/events/upstream-events.ts';
import type { Change } from '#server/contract/keys.ts';
import type { CircuitStatus } from '#server/upstreams/circuit-breaker.ts';

/**
 * What the dashboard and the server say to one another about upstreams, their credentials, and the models
 * that go to them. Changes are for administrators, and reply with a `Change`. Pure.
 */

const SECRET_CHARACTERS_MAX = 16_384;

/**
 * `GET /api/upstreams`, for administrators and auditors: in their order, which decides between two that list
 * the same model.
 */
export type UpstreamList = {
  object: 'list';
  data: UpstreamRow[];
  /**
   * What is known of those who speak the convention: where they are, if not somewhere of one's own, and which
   * routes they speak.
   */
  dialects: Record<Dialect, { base_url: string | null; routes: readonly RelayedRoute[] }>;
};

export type UpstreamRow = {
  name: string;
  /** Only those of the log can be changed here; `demo` is built in. */
  source: 'log' | 'environment' | 'demo';
  terms: UpstreamTerms;
  /** The routes that it is asked by. */
  routes: RelayedRoute[];
  /** `no_credential`: none of those that it has opens on this server, so nothing is sent there. */
  state: 'in_use' | 'paused' | 'no_credential';
  /** Of the endpoint as such, as the calls of the server that answers have seen it. */
  health: CircuitStatus;
  credentials: CredentialRow[];
  /** The position of its newest event; null for those that are in no log. */
  position: number | null;
};

/** What an upstream is asked with. Its secret is never in a reply. */
export type CredentialRow = {
  /** Null for what is in no log: the one that the environment gives, and where none is sent. */
  id: string | null;
  source: 'log' | 'environment' | 'none';
  label: string;
  /** Empty where the secret is too short to show a part of it. */
  last4: string;
  added_at: string | null;
  /** As the calls of the server that answers have seen it; null: it does not open there. */
  health: CircuitStatus | null;
};

const Name = z
  .string()
  .refine(
    (name) => UpstreamName.safeParse(name).success,
    'must have 1 to 64 of a-z, 0-9, ".", "_" and "-", and begin with a letter or a digit',
  );
/** `POST /api/upstreams`. It has no credentials yet. */
export const AddUpstream = z.strictObject({ name: Name, terms: UpstreamTerms });
/**
 * `PATCH /api/upstreams/:upstream`: other terms in place of all that it had, paused or not as it was; or
 * paused or not alone.
 */
export const ChangeUpstream = z
  .strictObject({ terms: UpstreamTerms.optional(), paused: z.boolean().optional() })
  .refine(({ terms, paused }) => (terms === undefined) !== (paused === undefined), {
    path: ['terms'],
    message: 'or "paused" says what changes: one of them',
  });
/**
 * `DELETE /api/upstreams/:upstream`: with its credentials, for good. 409 `not_allowed` where a model could go
 * nowhere else.
 */

/**
 * `POST /api/upstreams/:upstream/credentials` → `Change & {object: 'credential', id, last4}`. The secret goes
 * in and never comes out.
 */
export const AddCredential = z.strictObject({
  label: CredentialLabel,
  secret: z.string().min(1, 'is empty').max(SECRET_CHARACTERS_MAX, 'is too long'),
});
export type CreatedCredential = Change & { object: 'credential'; id: string; last4: string };
/** `DELETE /api/upstreams/:upstream/credentials/:credential`: for good. */

/**
 * `POST /api/upstreams/:upstream/test`, for administrators: it is asked for its models with each credential.
 * What answers well is no longer left out.
 */
export type UpstreamTestResult = { object: 'upstream_test'; data: CredentialTestResult[] };
export type CredentialTestResult = {
  credential: string | null;
  label: string;
  /** `unsure`: it answers, and whether calls pass is only seen by calling. */
  outcome: 'valid' | 'unknown' | 'invalid';
  /** How many it lists; null where it gave no list. */
  models: number | null;
  duration_ms: number;
  /** One line for people; null where all is well. */
  error: string | null;
};
/** `GET /api/upstreams/:upstream/models`, for administrators: the upstream's own list, asked for now. */
export type UpstreamModels = { object: 'list'; data: string[]; error: string | null };
