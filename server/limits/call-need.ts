import { EXACT_REPLY_TOKENS_DEFAULT, isEnforced, type Limit, type SubjectLimits } from '#db/limits/limits.ts';
import { type Amounts, isByUsage, reservedAmount } from '#db/limits/meters.ts';
import { type CostBound, costBound } from '#db/pricing/bound.ts';
import type { CallNeed } from '#server/limits/waiting-call.ts';
import { COMPLETION_MINIMUM_TOKENS } from '#server/limits/bounds.ts';
import { TOKENS_MAX } from '#server/wire/bounds.ts';

/**
 * The amounts that a call reserves, from the size of its prompt and of its reply. Pure: a server reserves by
 * it, and a back-test reserves by it again.
 */

/** The size of a call, in tokens. */
export type NeedSize = {
  /** Of the prompt: an estimate, or under a hard limit an upper bound. */
  promptTokens: number;
  /** Of its reply over all choices, as past calls make likely. */
  expectedTokens: number;
  choices: number;
  /** The call's own limit for one choice; null: it has none. */
  ownLimit: number | null;
};

/**
 * The least and the most that a call asks for. Under a soft limit both are its likely usage; under a hard one
 * they are those of the shortest useful reply and of the longest possible one.
 * @param cost what the call can cost; null: nothing.
 */
export function callNeed(
  { promptTokens, expectedTokens, choices, ownLimit }: NeedSize,
  subjects: readonly SubjectLimits[],
  isHard: boolean,
  cost: CostBound | null,
): CallNeed {
  const amounts = (completion: number): Amounts => ({
    tokens: Math.min(TOKENS_MAX, promptTokens + completion),
    cost: cost ? costBound(cost, promptTokens, completion) : 0,
  });
  if (isHard) {
    const most = Math.min(ownLimit ?? replyTokensMax(subjects) ?? EXACT_REPLY_TOKENS_DEFAULT, TOKENS_MAX);
    const least = Math.min(COMPLETION_MINIMUM_TOKENS, most);
    return { minimum: amounts(least * choices), wanted: amounts(most * choices) };
  }
  const likely = amounts(Math.min(expectedTokens, ownLimit === null ? Infinity : ownLimit * choices));
  return { minimum: likely, wanted: likely };
}

/** The longest reply that the terms declare, if they do. */
export function replyTokensMax(subjects: readonly SubjectLimits[]): number | null {
  let least: number | null = null;
  for (const { replyTokensMax: most } of subjects)
    if (most !== null && (least === null || most < least)) least = most;
  return least;
}

/** Whether a limit counts money. */
export function countsCost({ limits }: SubjectLimits): boolean {
  return limits.some(isOfCost);
}

/** Whether an enforced limit counts money, which needs a price. */
export function boundsCost({ limits }: SubjectLimits): boolean {
  return limits.some((limit) => isOfCost(limit) && isEnforced(limit));
}

const isOfCost = ({ meter }: Limit): boolean => reservedAmount(meter) === 'cost';

/** Whether a limit of usage may never be exceeded. */
export function hasHardLimit({ limits }: Pick<SubjectLimits, 'limits'>): boolean {
  return limits.some(({ meter, enforcement }) => enforcement === 'hard' && isByUsage(meter));
}
