import { z } from 'zod';
import { ChangeReply, Freshness, PageEnd, PageQuery } from '#server/contract/parts.ts';
import { TopUpReference } from '#db/events/account-events.ts';
import { PlanTerms, Windows } from '#db/events/events.ts';
import { Id, PlanName } from '#db/events/parts.ts';
import { AdjustmentAmount, AdjustmentReason } from '#db/events/quota-events.ts';
import { QUOTA_WINDOWS } from '#db/limits/limits.ts';
import { QUOTA_METERS } from '#db/limits/meters.ts';
import { NewAccountName } from '#server/contract/session.ts';
import { MonthUsage } from '#server/contract/usage.ts';

/** Contract for accounts and plans. Changes are for administrators and return a `Change`. Pure. */

/** Query of `GET /api/v1/accounts`. */
export const AccountsQuery = z.strictObject({
  ...PageQuery.shape,
  /** Part of the name, or the id. */ search: z.string().max(100).optional(),
  /** Only accounts on this plan. */ plan: PlanName.optional(),
});

export const AccountRef = z.object({ id: z.string(), name: z.string() });
export type AccountRef = z.infer<typeof AccountRef>;

/** One account in `GET /api/v1/accounts`, and `GET /api/v1/accounts/:account`. Auditors may read it. */
export const AccountRow = z.object({
  id: z.string(),
  name: z.string(),
  state: z.enum(['active', 'suspended']),
  plan: z.string().nullable(),
  override: PlanTerms.nullable(),
  created_at: z.string(),
  /** The account whose limits its calls are charged to as well. */
  parent: AccountRef.nullable(),
  /** The accounts directly below it, at most 100. */
  children: z.array(AccountRef),
  /** Whether its plan or override makes it prepaid, and the sum of its top-ups. */
  prepaid: z.boolean(),
  topped_up_nanousd: z.number(),
  members: z.number(),
  /** Active keys. */
  keys: z.number(),
  month: MonthUsage,
});
export type AccountRow = z.infer<typeof AccountRow>;
/** `GET /api/v1/accounts`, newest first. Account fields are current; `month` is as of `as_of`. */
export const AccountList = z.object({
  ...Freshness.shape,
  object: z.literal('list'),
  data: z.array(AccountRow),
  ...PageEnd,
});
export type AccountList = z.infer<typeof AccountList>;
export const CreatedAccount = z.object({
  object: z.literal('account'),
  id: z.string(),
  ...ChangeReply.shape,
});
/** `POST /api/v1/accounts` → {@link CreatedAccount}. 409 `already_exists`. */
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
export const TopUpRow = z.object({
  position: z.number(),
  at: z.string(),
  actor: z.string(),
  amount_nanousd: z.number(),
  reference: z.string(),
});
export type TopUpRow = z.infer<typeof TopUpRow>;
/** `GET /api/v1/accounts/:account/top-ups`, newest first. Auditors may read it. */
export const TopUpList = z.object({ object: z.literal('list'), data: z.array(TopUpRow) });
export type TopUpList = z.infer<typeof TopUpList>;
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
/** A change of one quota's usage: the account's, or the key's if there is one. */
export const AdjustmentRow = z.object({
  position: z.number(),
  at: z.string(),
  actor: z.string(),
  key: z.string().nullable(),
  meter: z.enum(QUOTA_METERS),
  /** Units added; below zero they were given back. */
  amount: z.number(),
  window: z.enum(QUOTA_WINDOWS),
  reason: z.string(),
});
export type AdjustmentRow = z.infer<typeof AdjustmentRow>;

/** `GET /api/v1/accounts/:account/adjustments`, newest first. Auditors may read it. */
export const AdjustmentList = z.object({
  object: z.literal('list'),
  data: z.array(AdjustmentRow),
  /** The number of older rows that are not included. */
  rows_omitted: z.number(),
});
export type AdjustmentList = z.infer<typeof AdjustmentList>;

/** One in `GET /api/v1/plans`, sorted by name. Auditors may read it. */
export const PlanRow = z.object({
  name: z.string(),
  terms: PlanTerms,
  state: z.enum(['active', 'retired']),
  /** Accounts on this plan. */
  accounts: z.number(),
  version: z.number(),
});
export type PlanRow = z.infer<typeof PlanRow>;
/**
 * `PUT /api/v1/plans/:plan` creates or changes a plan. `POST /api/v1/plans/:plan/retire` retires it
 * permanently: calls of accounts that are still on it are rejected.
 */
export const PutTerms = z.strictObject({ terms: PlanTerms, windows: Windows.default('keep') });
