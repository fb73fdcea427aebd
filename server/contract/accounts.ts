import { z } from 'zod';
import {
  Id,
  ModelName,
  PlanName,
  REGISTRATION_POLICIES,
  type RegistrationPolicy,
  type Role,
  RoleName,
} from '#db/events/parts.ts';
import { PlanTerms, PricesShape, Windows } from '#db/events/events.ts';
import type { Prices } from '#db/money.ts';
import type { AsOf } from '#server/contract/requests.ts';
import type { Change, MonthUsage } from '#server/contract/keys.ts';
import { Email, NewAccountName } from '#server/contract/session.ts';

/**
 * What the dashboard and the server say to one another about accounts, members, plans and prices. Changes are
 * for administrators, and reply with a `Change`. Pure.
 */

/** What narrows `GET /api/accounts`. */
export const AccountsQuery = z.strictObject({
  /** Part of its name, or its id. */ search: z.string().max(100).optional(),
});
/** `GET /api/accounts`, the newest first. What accounts are is as of now; `month` is as of `as_of`. */
export type AccountList = AsOf & {
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
  registered_at: string;
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

/**
 * One in `GET /api/members`, a list: of the own account, or for administrators and auditors of all, narrowed
 * by `?account=`; `rows_omitted` older ones are left out. Auditors see no addresses: null.
 */
export type MemberRow = {
  id: string;
  email: string | null;
  account: string;
  account_name: string;
  role: Role;
  has_totp: boolean;
  added_at: string;
  seen_at: string | null;
};
/** `PATCH /api/members/:member`. The last administrator stays one: 409 `last_administrator`. */
export const ChangeMember = z.strictObject({ role: RoleName });
/** `DELETE /api/members/:member`: erases the address and password, and ends all sessions. */
/** `POST /api/members/:member/reset`: a link by which they choose a new password → `LinkMade`. */

/** One in `GET /api/invitations`, a list of those that are open; `rows_omitted` older ones are left out. */
export type InvitationRow = {
  id: string;
  account: string | null;
  account_name: string | null;
  role: Role;
  created_at: string;
  expires_at: string;
};
/**
 * `POST /api/invitations` → {@link LinkMade}. Sent to the address where SMTP is set up; the link is shown in
 * any case.
 */
export const CreateInvitation = z.strictObject({
  account: Id.nullable(),
  role: RoleName,
  email: Email.optional(),
});
/** `DELETE /api/invitations/:invitation` */
/** The link is in this reply and nowhere else. */
export type LinkMade = Change & {
  object: 'link';
  id: string;
  link: string;
  expires_at: string;
  was_sent: boolean;
};

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

/** One in `GET /api/prices`, a list by name; auditors see it too. Micro-dollars for a million tokens. */
export type PriceRow = { model: string; prices: Prices; source: string; version: number };
/** `PUT /api/prices` */
export const PutPrice = z.strictObject({ model: ModelName, prices: PricesShape });
/**
 * `POST /api/prices/import` → {@link PricesImported}: from the list that is installed, of these providers;
 * none: those that the upstreams' addresses belong to.
 */
export const ImportPrices = z.strictObject({
  dry_run: z.boolean(),
  replace_manual: z.boolean().default(false),
  providers: z.array(z.string().max(100)).max(50).default([]),
});
/** What an import has changed, or would; `kept_manual`: set by hand to something else, and left so. */
export type PricesImported = Change & {
  object: 'price_import';
  source: string;
  providers: string[];
  dry_run: boolean;
  changed: { model: string; before: Prices | null; after: Prices; notes: readonly string[] }[];
  kept_manual: { model: string; set: Prices; offered: Prices }[];
  unchanged: number;
  skipped: { provider: string; model: string; why: string }[];
};

/** `GET /api/registration` and `PUT` of the same. */
export type RegistrationShown = { object: 'registration'; policy: RegistrationPolicy; plan: string | null };
/** Open takes a plan. */
export const PutRegistration = z.strictObject({
  policy: z.enum(REGISTRATION_POLICIES),
  plan: PlanName.nullable(),
});
