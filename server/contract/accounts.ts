import { z } from 'zod';
import { PlanName } from '#db/events/parts.ts';
import { PlanTerms, Windows } from '#db/events/events.ts';
import type { Freshness } from '#server/contract/parts.ts';
import { NewAccountName } from '#server/contract/session.ts';
import type { MonthUsage } from '#server/contract/usage.ts';

/**
 * What the dashboard and the server say to one another about accounts, members, plans and prices. Changes are
 * for administrators, and reply with a `Change`. Pure.
 */

/** What narrows `GET /api/accounts`. */
export const AccountsQuery = z.strictObject({
  /** Part of its name, or its id. */ search: z.string().max(100).optional(),
});
/** `GET /api/accounts`, the newest first. What accounts are is as of now; `month` is as of `as_of`. */
export type AccountList = Freshness & {
  object: 'list';
  data: AccountRow[];
  /** Those that are left out because they are too many. */ rows_omitted: number;
};

/** One account in `GET /api/accounts`, and `GET /api/accounts/:account`; auditors see it too. */
export type AccountRow = {
  id: string;
  name: string;
  state: 'active' | 'suspended';
  plan: string | null;
  override: PlanTerms | null;
  created_at: string;
  members: number;
  /** Keys that are good. */
  keys: number;
  month: MonthUsage;
};
/**
 * `POST /api/accounts` → `Change & {object: 'account', id}`; 409 `already_exists` where the name is taken.
 */
export const CreateAccount = z.strictObject({ name: NewAccountName, plan: PlanName.optional() });
/** `POST /api/accounts/:account/suspend` and `/reinstate` take nothing. */
/** `PUT /api/accounts/:account/plan`; null: on none, which limits nothing. */
export const PutPlan = z.strictObject({ plan: PlanName.nullable(), windows: Windows.default('keep') });
/**
 * `PUT /api/accounts/:account/override`: terms of its own, each in place of the plan's; {} takes them away.
 */
export const PutOverride = z.strictObject({ terms: PlanTerms, windows: Windows.default('keep') });

/** One in `GET /api/plans`, a list by name; auditors see it too. */
export type PlanRow = {
  name: string;
  terms: PlanTerms;
  state: 'active' | 'retired';
  /** On it. */ accounts: number;
  version: number;
};
/**
 * `PUT /api/plans/:plan`: defines it, or changes it. `POST /api/plans/:plan/retire` ends it for good:
 * accounts that are still on it are refused.
 */
export const PutTerms = z.strictObject({ terms: PlanTerms, windows: Windows.default('keep') });
