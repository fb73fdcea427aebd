import { z } from 'zod';
import { Id, PlanName } from '#db/events/parts.ts';
import { TopUpReference } from '#db/events/account-events.ts';
import { PlanTerms, Windows } from '#db/events/events.ts';
import { AdjustmentAmount, AdjustmentReason } from '#db/events/quota-events.ts';
import { QUOTA_WINDOWS, type QuotaWindowKind } from '#db/limits/limits.ts';
import { QUOTA_METERS, type QuotaMeter } from '#db/limits/meters.ts';
import type { Freshness } from '#server/contract/parts.ts';
import { NewAccountName } from '#server/contract/session.ts';
import type { MonthUsage } from '#server/contract/usage.ts';

/** Contract for accounts and plans. Changes are for administrators and return a `Change`. Pure. */

/** Query of `GET /api/v1/accounts`. */
export const AccountsQuery = z.strictObject({
  /** Part of the name, or the id. */ search: z.string().max(100).optional(),
});
/** `GET /api/v1/accounts`, newest first. Account fields are current; `month` is as of `as_of`. */
export type AccountList = Freshness & {
  object: 'list';
  data: AccountRow[];
  /** Rows beyond the limit of the list. */ rows_omitted: number;
};

export type AccountRef = { id: string; name: string };

/** One account in `GET /api/v1/accounts`, and `GET /api/v1/accounts/:account`. Auditors may read it. */
export type AccountRow = {
  id: string;
  name: string;
  state: 'active' | 'suspended';
  plan: string | null;
  override: PlanTerms | null;
  created_at: string;
  /** The account whose limits its calls are charged to as well. */ parent: AccountRef | null;
  /** The accounts directly below it, at most 100. */ children: AccountRef[];
  /** Whether its plan or override makes it prepaid, and the sum of its top-ups. */
  prepaid: boolean;
  topped_up_nanousd: number;
  members: number;
  /** Active keys. */
  keys: number;
  month: MonthUsage;
};
/** `POST /api/v1/accounts` → `Change & {object: 'account', id}`. 409 `already_exists`. */
export const CreateAccount = z.strictObject({ name: NewAccountName, plan: PlanName.optional() });
/** `POST /api/v1/accounts/:account/suspend` and `/reinstate` have no body. */
/** `PUT /api/v1/accounts/:account/plan`. Null: no plan, so no limits. */
export const PutPlan = z.strictObject({ plan: PlanName.nullable(), windows: Windows.default('keep') });
/**
 * `PUT /api/v1/accounts/:account/parent` puts the account below another one; null: below none. 409
 * `not_allowed` if accounts would form a circle, or more than three levels.
 */
export const PutParent = z.strictObject({ parent: Id.nullable() });
/**
 * `POST /api/v1/accounts/:account/top-ups` adds to the prepaid balance, once for each reference (409
 * `already_done`).
 */
export const TopUp = z.strictObject({ amount_nanousd: z.int().min(1), reference: TopUpReference });
/** `GET /api/v1/accounts/:account/top-ups`, newest first. Auditors may read it. */
export type TopUpList = {
  object: 'list';
  data: TopUpRow[];
};
export type TopUpRow = {
  position: number;
  at: string;
  actor: string;
  amount_nanousd: number;
  reference: string;
};
/** `PUT /api/v1/accounts/:account/override`: each term replaces the plan's; {} removes the override. */
export const PutOverride = z.strictObject({ terms: PlanTerms, windows: Windows.default('keep') });

/**
 * `POST /api/v1/accounts/:account/adjustments` adds units to the usage of quotas in their current windows, or
 * gives them back (`amount` below zero). `adjustment` is an idempotency key: a repeated request changes
 * nothing (409 `already_done`). `key` also adjusts the key's own quotas. 404 `not_found` if
 * the account has no such key, 409 `not_allowed` if no quota counts the usage, or a window has too few units.
 */
export const AdjustUsage = z.strictObject({
  meter: z.enum(QUOTA_METERS),
  amount: AdjustmentAmount,
  /** Only the quota of this window; absent: those of all windows. */
  window: z.enum(QUOTA_WINDOWS).optional(),
  key: Id.optional(),
  reason: AdjustmentReason,
  adjustment: z.uuid(),
});

/** `GET /api/v1/accounts/:account/adjustments`, newest first. Auditors may read it. */
export type AdjustmentList = {
  object: 'list';
  data: AdjustmentRow[];
  /** The number of older rows that are not included. */ rows_omitted: number;
};
/** A change of one quota's usage: the account's, or the key's if there is one. */
export type AdjustmentRow = {
  position: number;
  at: string;
  actor: string;
  key: string | null;
  meter: QuotaMeter;
  /** Units added; below zero they were given back. */ amount: number;
  window: QuotaWindowKind;
  reason: string;
};

/** One in `GET /api/v1/plans`, sorted by name. Auditors may read it. */
export type PlanRow = {
  name: string;
  terms: PlanTerms;
  state: 'active' | 'retired';
  /** Accounts on this plan. */ accounts: number;
  version: number;
};
/**
 * `PUT /api/v1/plans/:plan` creates or changes a plan. `POST /api/v1/plans/:plan/retire` retires it
 * permanently: calls of accounts that are still on it are rejected.
 */
export const PutTerms = z.strictObject({ terms: PlanTerms, windows: Windows.default('keep') });
