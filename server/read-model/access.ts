import type { PlanTerms } from '#db/events/events.ts';
import { type Account, accountTerms } from '#db/fold/account.ts';
import type { Key } from '#db/fold/key.ts';
import type { Plan } from '#db/fold/plan.ts';
import { limitsOf, type SubjectLimits } from '#db/limits/limits.ts';
import { type Permissions, permissionsOf } from '#db/limits/permissions.ts';
import { type AddressSet, networksOf } from '#server/access/networks.ts';

/** How the calls of an account are charged. A key has no terms of its own for it. */
export type Pricing = {
  /** The plan whose prices count; null: none. */
  plan: string | null;
  /** In basis points. */
  markup: number;
  /** Whether models without a price may be called under a cost quota. */
  allowsUnpriced: boolean;
};
export const NO_PRICING: Pricing = { plan: null, markup: 0, allowsUnpriced: false };

/** The terms of an account or a key, compiled for the hot path. Pure. */
export type Access = {
  /** False if no call is allowed, because the account's plan is retired. */
  isActive: boolean;
  /** Null: nothing is forbidden. */
  permissions: Permissions | null;
  /** The networks that a key may be used from; null: any. */
  networks: AddressSet | null;
  /** Null: nothing is limited. */
  limits: SubjectLimits | null;
  pricing: Pricing;
};

/**
 * The compiled terms of an account with a plan or an override.
 * @param plan the account's plan; undefined: it has no plan, or an unknown one.
 */
export function accessOfAccount(account: Account, plan: Plan | undefined): Access {
  const terms = accountTerms(account, plan);
  const position = Math.max(account.termsPosition, plan?.position ?? 0);
  return {
    isActive: account.plan === null || plan?.state === 'active',
    permissions: permissionsOf(terms),
    networks: null,
    limits: limitsIn(terms, `account/${account.id}`, account.resetPosition, position),
    pricing: {
      plan: account.plan,
      markup: terms.markup ?? 0,
      allowsUnpriced: terms.unpriced_models === 'free',
    },
  };
}

/** The compiled restrictions of a key; null for a key without any. */
export function accessOfKey({ id, terms, resetPosition, termsPosition }: Key): Access | null {
  if (terms === null) return null;
  return {
    isActive: true,
    permissions: permissionsOf(terms),
    networks: terms.networks === undefined ? null : networksOf(terms.networks),
    limits: limitsIn(terms, `key/${id}`, resetPosition, termsPosition),
    pricing: NO_PRICING,
  };
}

function limitsIn(terms: PlanTerms, subject: string, reset: number, position: number): SubjectLimits | null {
  const limits = limitsOf(terms, reset);
  if (limits.length === 0) return null;
  return { subject, limits, position, replyTokensMax: terms.reply_tokens_max ?? null };
}
