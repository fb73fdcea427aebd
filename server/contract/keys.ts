import { z } from 'zod';
import { Id, KeyName, ModelName } from '#db/events/parts.ts';
import { KeyTerms, Windows } from '#db/events/events.ts';
import { ROUTES } from '#db/limits/limits.ts';
import type { Change } from '#server/control/change.ts';
import type { Freshness } from '#server/contract/parts.ts';
import { withoutControls } from '#server/contract/session.ts';
import type { MonthUsage } from '#server/contract/usage.ts';

/** What the dashboard and the server say to one another about keys, and about limits. Pure. */

/** Every reply to a change carries the event that it appended. */
export type { Change };

/** Times that people choose: with their zone. */
const Moment = z.iso.datetime({ offset: true, error: 'must be a time such as 2027-01-31T00:00:00Z' });
const NewKeyName = withoutControls(KeyName);
const OVERLAP_SECONDS_MAX = 30 * 86_400;

/** What narrows `GET /api/keys` and `GET /api/accounts`. */
export const KeysQuery = z.strictObject({
  account: Id.optional(),
  /** Part of its name, its id, or the end of its secret; letter case makes no difference. */
  search: z.string().max(100).optional(),
});
/**
 * `GET /api/keys`, the newest first. What keys are is as of now; only `month` and when they were used is as
 * of `as_of`.
 */
export type KeyList = Freshness & {
  object: 'list';
  data: KeyRow[];
  /** Those that are left out because they are too many. */ rows_omitted: number;
};

/**
 * One key in `GET /api/keys`, and `GET /api/keys/:key`; the account's own, of all accounts for administrators
 * and auditors.
 */
export type KeyRow = {
  id: string;
  account: string;
  account_name: string;
  name: string;
  /** `dbk_<id>_…<last4>` is what people see of a secret. */
  last4: string;
  state: 'active' | 'rotating' | 'expired' | 'revoked';
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  rotated_at: string | null;
  /** While the old secret is good as well; these three are null otherwise. */
  overlap_ends_at: string | null;
  previous_last4: string | null;
  /** When each secret was last used, to about a minute; null: never, as far as is known. */
  last_used_at: string | null;
  previous_last_used_at: string | null;
  terms: KeyTerms | null;
  month: MonthUsage;
};

/**
 * `POST /api/keys`. Administrators may name another account. 409 `not_allowed` where it has as many keys as
 * it may.
 */
export const CreateKey = z.strictObject({
  name: NewKeyName,
  account: Id.optional(),
  expires_at: Moment.optional(),
  terms: KeyTerms.optional(),
});
/** The secret is in this reply and nowhere else, ever. */
export type CreatedKey = Change & { object: 'key'; id: string; secret: string };

/**
 * `POST /api/keys/:key/rotate` → {@link CreatedKey}. `rotation` is the client's own id of it: sent again it
 * changes nothing more (409 `already_done`).
 */
export const RotateKey = z.strictObject({
  overlap_s: z.int().min(0).max(OVERLAP_SECONDS_MAX),
  rotation: z.uuid(),
});
/** `POST /api/keys/:key/revoke` → {@link Change} */
/**
 * `POST /api/keys/:key/leaked` → {@link CreatedKey}: every older secret ends at once, that of a running overlap
 * too, and a new one is made.
 */
/**
 * `PATCH /api/keys/:key` → {@link Change}. Terms stand in place of all that the key had; they only ever
 * narrow what the account may.
 */
export const ChangeKey = z.strictObject({
  name: NewKeyName.optional(),
  terms: KeyTerms.optional(),
  expires_at: Moment.nullable().optional(),
  windows: Windows.default('keep'),
});
/** `POST /api/keys/:key/check` → {@link KeyCheckResult}: would this call pass? Nothing is held or recorded. */
export const CheckKey = z.strictObject({
  model: ModelName,
  route: z.enum(ROUTES).default('/v1/chat/completions'),
  /** `none`, or absent: no Origin header. */
  origin: z.string().max(200).optional(),
  address: z.string().max(60).optional(),
});
/**
 * What a call is asked, in this order. Without an address `network` is left out; `model`, `upstream`, `price`
 * and `limits` are asked of relayed calls alone.
 */
export type CheckStep =
  'key' | 'account' | 'plan' | 'route' | 'origin' | 'network' | 'model' | 'upstream' | 'price' | 'limits';
/** What was judged, in the order of a call; after the first refusal nothing more is. */
export type KeyCheckResult = {
  object: 'key_check';
  allowed: boolean;
  checks: {
    step: CheckStep;
    passed: boolean;
    /** The refusal that the call would get. */ error: {
      status: number;
      code: string;
      message: string;
    } | null;
  }[];
};
