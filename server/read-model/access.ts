import type { PlanTerms } from '#db/events/events.ts';
import { type Account, accountTerms } from '#db/fold/account.ts';
import type { Key } from '#db/fold/key.ts';
import type { Plan } from '#db/fold/plan.ts';
import { limitsOf, type SubjectLimits } from '#db/limits/limits.ts';
import { type Permissions, permissionsOf } from '#db/limits/permissions.ts';
import { type AddressSet, networksOf } from '#server/access/networks.ts';

/** What the terms of an account or a key amount to, compiled for the hot path. Pure. */
export type Access = {
  /** False where nothing may be called, because the account's plan is not in force. */
  isActive: boolean;
  /** Null: nothing is forbidden. */
  permissions: Permissions | null;
  /** From where a key may be used; null: from anywhere. */
  networks: AddressSet | null;
  /** Null: nothing is limited. */
  limits: SubjectLimits | null;
};

/**
 * What an account with a plan or an override may use.
 * @param plan its plan; undefined: it is on none, or on one that is not there.
 */
export function accessOfAccount(account: Account, plan: Plan | undefined): Access {
  const terms = accountTerms(account, plan);
  const position = Math.max(account.termsPosition, plan?.position ?? 0);
  return {
    isActive: account.plan === null || plan?.state === 'active',
    permissions: permissionsOf(terms),
    networks: null,
    limits: limitsIn(terms, `account/${account.id}`, account.resetPosition, position),
  };
}

/** What a key with terms of its own may use of what its account may; null for a key without. */
export function accessOfKey({ id, terms, resetPosition, termsPosition }: Key): Access | null {
  if (terms === null) return null;
  return {
    isActive: true,
    permissions: permissionsOf(terms),
    networks: terms.networks === undefined ? null : networksOf(terms.networks),
    limits: limitsIn(terms, `key/${id}`, resetPosition, termsPosition),
  };
}

function limitsIn(terms: PlanTerms, subject: string, reset: number, position: number): SubjectLimits | null {
  const limits = limitsOf(terms, reset);
  if (limits.length === 0) return null;
  return { subject, limits, position, replyTokensMax: terms.reply_tokens_max ?? null };
}
