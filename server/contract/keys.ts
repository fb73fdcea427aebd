import { z } from 'zod';
import { Id, KeyName, ModelName } from '#db/events/parts.ts';
import { ManagementScopes } from '#db/events/management-key-events.ts';
import type { ManagementScope } from '#db/events/management-scopes.ts';
import { KeyTerms, Windows } from '#db/events/events.ts';
import { ROUTES } from '#db/limits/limits.ts';
import type { Change } from '#server/control/change.ts';
import type { Freshness } from '#server/contract/parts.ts';
import { withoutControls } from '#server/contract/session.ts';
import type { MonthUsage } from '#server/contract/usage.ts';

/** Contract for API keys and management keys. Pure. */

/** Every reply to a change carries the event that it appended. */
export type { Change };

/** Times that people choose: with their zone. */
const Moment = z.iso.datetime({ offset: true, error: 'must be a time such as 2027-01-31T00:00:00Z' });
const NewKeyName = withoutControls(KeyName);
const OVERLAP_SECONDS_MAX = 30 * 86_400;

/** Query of `GET /api/v1/keys`. */
export const KeysQuery = z.strictObject({
  account: Id.optional(),
  /** Part of the name, the id, or the last characters of the secret; case-insensitive. */
  search: z.string().max(100).optional(),
});
/**
 * `GET /api/v1/keys`, newest first. Key fields are current; `month` and the times of use are as of `as_of`.
 */
export type KeyList = Freshness & {
  object: 'list';
  data: KeyRow[];
  /** Rows beyond the limit of the list. */ rows_omitted: number;
};

/**
 * One key in `GET /api/v1/keys`, and `GET /api/v1/keys/:key`: of the member's account, or of all accounts for
 * administrators and auditors.
 */
export type KeyRow = {
  id: string;
  account: string;
  account_name: string;
  name: string;
  /** `dbk_<id>_…<last4>` is the redacted form of a secret. */
  last4: string;
  state: 'active' | 'rotating' | 'expired' | 'revoked';
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  rotated_at: string | null;
  /** During a rotation's overlap, while the old secret is valid too; otherwise these three are null. */
  overlap_ends_at: string | null;
  previous_last4: string | null;
  /** Last use of each secret, accurate to about a minute; null: never, as far as is known. */
  last_used_at: string | null;
  previous_last_used_at: string | null;
  terms: KeyTerms | null;
  month: MonthUsage;
};

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
export type CreatedKey = Change & { object: 'key'; id: string; secret: string };

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
export type CheckStep =
  | 'key'
  | 'account'
  | 'plan'
  | 'route'
  | 'origin'
  | 'network'
  | 'model'
  | 'upstream'
  | 'price'
  | 'limits';
/** The result of each step, up to the first that fails. */
export type KeyCheckResult = {
  object: 'key_check';
  allowed: boolean;
  checks: {
    step: CheckStep;
    passed: boolean;
    /** The error that the call would get. */ error: {
      status: number;
      code: string;
      message: string;
    } | null;
  }[];
};

/**
 * One in `GET /api/v1/management-keys`, a list, newest first: those of the member's account, or all for
 * administrators and auditors. Management keys themselves can't use these routes.
 */
export type ManagementKeyRow = {
  id: string;
  name: string;
  /** `dbm_<id>_…<last4>` is the redacted form of the secret. */
  last4: string;
  scopes: ManagementScope[];
  /** The one account that it manages; null: the whole installation. */
  account: string | null;
  account_name: string | null;
  state: 'active' | 'expired' | 'revoked';
  created_at: string;
  /** Who created it: `member/<id>` or `command-line`. */
  created_by: string;
  expires_at: string | null;
  revoked_at: string | null;
};

/** `GET /api/v1/management-keys` */
export type ManagementKeyList = { object: 'list'; data: ManagementKeyRow[]; rows_omitted: number };

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
export type CreatedManagementKey = Change & { object: 'management_key'; id: string; secret: string };
/** `POST /api/v1/management-keys/:management_key/revoke` → {@link Change} */
