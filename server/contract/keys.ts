import { z } from 'zod';
import { ChangeReply, Freshness, PageEnd, PageQuery } from '#server/contract/parts.ts';
import { ManagementScopes } from '#db/events/management-key-events.ts';
import { MANAGEMENT_SCOPES } from '#db/events/management-scopes.ts';
import { KeyTerms, Windows } from '#db/events/events.ts';
import { Id, KeyName, ModelName } from '#db/events/parts.ts';
import { ROUTES } from '#db/limits/limits.ts';
import { withoutControls } from '#server/contract/session.ts';
import { MonthUsage } from '#server/contract/usage.ts';
import type { Change } from '#server/control/change.ts';

/** Contract for API keys and management keys. Pure. */

/** Every reply to a change carries the event that it appended. */
export type { Change };

/** Times that people choose: with their zone. */
const Moment = z.iso.datetime({ offset: true, error: 'must be a time such as 2027-01-31T00:00:00Z' });
const NewKeyName = withoutControls(KeyName);
const OVERLAP_SECONDS_MAX = 30 * 86_400;

/** Query of `GET /api/v1/keys`. */
export const KeysQuery = z.strictObject({
  ...PageQuery.shape,
  account: Id.optional(),
  /** Part of the name, the id, or the last characters of the secret; case-insensitive. */
  search: z.string().max(100).optional(),
});

/**
 * One key in `GET /api/v1/keys`, and `GET /api/v1/keys/:key`: of the member's account, or of all accounts for
 * administrators and auditors.
 */
export const KeyRow = z.object({
  id: z.string(),
  account: z.string(),
  account_name: z.string(),
  name: z.string(),
  /** `dbk_<id>_…<last4>` is the redacted form of a secret. */
  last4: z.string(),
  /** The workload whose short-lived keys it stands for; null: it has a secret of its own. */
  workload: z.string().nullable(),
  state: z.enum(['active', 'rotating', 'expired', 'revoked']),
  created_at: z.string(),
  expires_at: z.string().nullable(),
  revoked_at: z.string().nullable(),
  rotated_at: z.string().nullable(),
  /** During a rotation's overlap, while the old secret is valid too; otherwise these three are null. */
  overlap_ends_at: z.string().nullable(),
  previous_last4: z.string().nullable(),
  /** Last use of each secret, accurate to about a minute; null: never, as far as is known. */
  last_used_at: z.string().nullable(),
  previous_last_used_at: z.string().nullable(),
  terms: KeyTerms.nullable(),
  month: MonthUsage,
});
export type KeyRow = z.infer<typeof KeyRow>;
/**
 * `GET /api/v1/keys`, newest first. Key fields are current; `month` and the times of use are as of `as_of`.
 */
export const KeyList = z.object({
  ...Freshness.shape,
  object: z.literal('list'),
  data: z.array(KeyRow),
  ...PageEnd,
});
export type KeyList = z.infer<typeof KeyList>;

/**
 * `POST /api/v1/keys`. Administrators may choose another account. 409 `not_allowed` if the account has
 * reached its limit of keys.
 */
export const CreateKey = z.strictObject({
  name: NewKeyName,
  account: Id.optional(),
  expires_at: Moment.optional(),
  terms: KeyTerms.optional(),
});
/** The secret is shown once, in this reply. */
export const CreatedKey = z.object({
  ...ChangeReply.shape,
  object: z.literal('key'),
  id: z.string(),
  secret: z.string(),
});
export type CreatedKey = z.infer<typeof CreatedKey>;

/**
 * `POST /api/v1/keys/:key/rotate` → {@link CreatedKey}. `rotation` is an idempotency key: a repeated request
 * changes nothing (409 `already_done`).
 */
export const RotateKey = z.strictObject({
  overlap_s: z.int().min(0).max(OVERLAP_SECONDS_MAX),
  rotation: z.uuid(),
});
/** `POST /api/v1/keys/:key/revoke` → {@link Change} */
/**
 * `POST /api/v1/keys/:key/leaked` → {@link CreatedKey}: invalidates every secret at once, including one in
 * its overlap, and creates a new one.
 */
/**
 * `PATCH /api/v1/keys/:key` → {@link Change}. `terms` replaces all terms of the key; they can only narrow the
 * account's.
 */
export const ChangeKey = z.strictObject({
  name: NewKeyName.optional(),
  terms: KeyTerms.optional(),
  expires_at: Moment.nullable().optional(),
  windows: Windows.default('keep'),
});
/**
 * `POST /api/v1/keys/:key/check` → {@link KeyCheckResult}: a dry run of a call.
 */
export const CheckKey = z.strictObject({
  model: ModelName,
  route: z.enum(ROUTES).default('/v1/chat/completions'),
  /** `none`, or absent: no Origin header. */
  origin: z.string().max(200).optional(),
  address: z.string().max(60).optional(),
});
/**
 * The steps of authorizing a call, in order. Without an address `network` is skipped; `model`, `upstream`,
 * `price` and `limits` apply to relayed calls only.
 */
export const CheckStep = z.enum([
  'key',
  'account',
  'plan',
  'route',
  'origin',
  'network',
  'model',
  'upstream',
  'price',
  'limits',
]);
export type CheckStep = z.infer<typeof CheckStep>;
/** The result of each step, up to the first that fails. */
export const KeyCheckResult = z.object({
  object: z.literal('key_check'),
  allowed: z.boolean(),
  checks: z.array(
    z.object({
      step: CheckStep,
      passed: z.boolean(),
      /** The error that the call would get. */
      error: z.object({ status: z.number(), code: z.string(), message: z.string() }).nullable(),
    }),
  ),
});
export type KeyCheckResult = z.infer<typeof KeyCheckResult>;

/**
 * One in `GET /api/v1/management-keys`, a list, newest first: those of the member's account, or all for
 * administrators and auditors. Management keys themselves can't use these routes.
 */
export const ManagementKeyRow = z.object({
  id: z.string(),
  name: z.string(),
  /** `dbm_<id>_…<last4>` is the redacted form of the secret. */
  last4: z.string(),
  scopes: z.array(z.enum(MANAGEMENT_SCOPES)),
  /** The one account that it manages; null: the whole installation. */
  account: z.string().nullable(),
  account_name: z.string().nullable(),
  state: z.enum(['active', 'expired', 'revoked']),
  created_at: z.string(),
  /** Who created it: `member/<id>` or `command-line`. */
  created_by: z.string(),
  expires_at: z.string().nullable(),
  revoked_at: z.string().nullable(),
});
export type ManagementKeyRow = z.infer<typeof ManagementKeyRow>;

/** `GET /api/v1/management-keys`, newest first. */
export const ManagementKeyList = z.object({
  object: z.literal('list'),
  data: z.array(ManagementKeyRow),
  ...PageEnd,
});
export type ManagementKeyList = z.infer<typeof ManagementKeyList>;

/**
 * `POST /api/v1/management-keys`. `account`: the one that it manages; null: the whole installation, for
 * administrators. Absent: the member's own account. 409 `not_allowed` if there are too many.
 */
export const CreateManagementKey = z.strictObject({
  name: NewKeyName,
  scopes: ManagementScopes,
  account: Id.nullable().optional(),
  expires_at: Moment.optional(),
});
/** The secret is shown once, in this reply. */
export const CreatedManagementKey = z.object({
  ...ChangeReply.shape,
  object: z.literal('management_key'),
  id: z.string(),
  secret: z.string(),
});
export type CreatedManagementKey = z.infer<typeof CreatedManagementKey>;
/** `POST /api/v1/management-keys/:management_key/revoke` → {@link Change} */
