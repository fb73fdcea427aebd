import { type Account, chargedTerms } from '#db/fold/account.ts';
import type { Key } from '#db/fold/key.ts';
import type { Plan } from '#db/fold/plan.ts';
import { type Limit, limitsOf, limitsPer, type SubjectLimits } from '#db/limits/limits.ts';
import { type Permissions, permissionsOf } from '#db/limits/permissions.ts';
import {
  type CallAttribution,
  holderName,
  PER,
  PER_NAMES,
  type Per,
  subjectPrefix,
} from '#db/limits/subjects.ts';
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
  /** Of all calls together; null: nothing is limited. */
  limits: SubjectLimits | null;
  /** The same as a list, made once for all calls. */
  limitList: readonly SubjectLimits[];
  pricing: Pricing;
  /** Whether replies to requests with an idempotency key are kept. */
  keepsReplies: boolean;
  /** Of each end user, session or tag apart. */
  limitsPer: readonly LimitsPer[];
};

/** The limits of each subject of a kind. `prefix` and its pseudonym are its name. */
type LimitsPer = Omit<SubjectLimits, 'subject'> & { per: Per; prefix: string };

/**
 * The compiled terms of an account with a plan or an override.
 * @param plan the account's plan; undefined: it has no plan, or an unknown one.
 */
export function accessOfAccount(account: Account, plan: Plan | undefined): Access {
  const terms = chargedTerms(account, plan);
  const position = Math.max(account.termsPosition, plan?.position ?? 0);
  return {
    isActive: account.plan === null || plan?.state === 'active',
    permissions: permissionsOf(terms),
    networks: null,
    ...limitsIn(terms, account.resetPosition, position, { account: account.id, key: null }),
    pricing: {
      plan: account.plan,
      markup: terms.markup ?? 0,
      allowsUnpriced: terms.unpriced_models === 'free',
    },
    keepsReplies: terms.keep_replies === true,
  };
}

/** The compiled restrictions of a key; null for a key without any. */
export function accessOfKey({ id, account, terms, resetPosition, termsPosition }: Key): Access | null {
  if (terms === null) return null;
  return {
    isActive: true,
    permissions: permissionsOf(terms),
    networks: terms.networks === undefined ? null : networksOf(terms.networks),
    ...limitsIn(terms, resetPosition, termsPosition, { account, key: id }),
    pricing: NO_PRICING,
    keepsReplies: false,
  };
}

function limitsIn(
  terms: ReturnType<typeof chargedTerms>,
  reset: number,
  position: number,
  { account, key }: { account: string; key: string | null },
): Pick<Access, 'limits' | 'limitList' | 'limitsPer'> {
  const common = { position, replyTokensMax: terms.reply_tokens_max ?? null };
  const subject = key === null ? holderName('account', account) : holderName('key', key);
  const limits = limitsOf(terms, reset);
  const apart = PER_NAMES.flatMap((per) => {
    const each: readonly Limit[] = limitsPer(terms, reset, per);
    return each.length === 0
      ? []
      : [{ ...common, limits: each, per, prefix: subjectPrefix(per, account, key) }];
  });
  const own = limits.length === 0 ? null : { ...common, subject, limits };
  return { limits: own, limitList: own === null ? [] : [own], limitsPer: apart };
}

/**
 * The limits that a call is charged to by the terms of one account or key: the same array for every call,
 * where end users, sessions and tags are not counted apart.
 */
export function limitsFor(
  { limitList, limitsPer: apart }: Access,
  call: CallAttribution | undefined,
): readonly SubjectLimits[] {
  if (call === undefined || apart.length === 0) return limitList;
  const subjects = [...limitList];
  // Loops and an object per subject, because this is done for every call.
  for (const { per, prefix, limits, position, replyTokensMax } of apart) {
    const pseudonyms = PER[per].of(call);
    for (let index = 0; index < pseudonyms.length; index++) {
      const pseudonym = pseudonyms[index] as string;
      // A tag that is named twice is charged once.
      if (pseudonyms.indexOf(pseudonym) === index)
        subjects.push({ subject: prefix + pseudonym, limits, position, replyTokensMax });
    }
  }
  return subjects;
}

/** Both in one list, which is one of the two where the other is empty. */
export function joined(
  one: readonly SubjectLimits[],
  other: readonly SubjectLimits[],
): readonly SubjectLimits[] {
  if (other.length === 0) return one;
  return one.length === 0 ? other : [...one, ...other];
}
