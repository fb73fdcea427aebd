import { CLAIM_CHARACTERS_MAX, type WorkloadTerms } from '#db/events/identity/workload-events.ts';
import { claimOf } from '#server/sign-in/oidc/rules.ts';

/** What a workload asks of the claims of a token. Pure. */

type Claims = Readonly<Record<string, unknown>>;

/** The claims that the conditions use, with the values that hold; null: a condition doesn't hold. */
export function claimsUsed(
  { conditions }: Pick<WorkloadTerms, 'conditions'>,
  claims: Claims,
): Record<string, string> | null {
  const used: [string, string][] = [];
  for (const { claim, values } of conditions) {
    const stated = textsIn(claimOf(claims, claim)).find((text) =>
      values.some((value) => isLike(text, value)),
    );
    if (stated === undefined) return null;
    used.push([claim, stated]);
  }
  return Object.fromEntries(used);
}

/** Whether a token is for this audience. */
export const hasAudience = (claims: Claims, audience: string): boolean =>
  textsIn(claims['aud']).includes(audience);

/** A value, or each of a list. Longer ones are no values of a condition. */
function textsIn(stated: unknown): string[] {
  const all: unknown[] = Array.isArray(stated) ? stated : [stated];
  return all.flatMap((each) => {
    const isPlain = typeof each === 'string' || typeof each === 'boolean' || Number.isSafeInteger(each);
    const text = isPlain ? String(each) : '';
    return isPlain && text.length <= CLAIM_CHARACTERS_MAX ? [text] : [];
  });
}

const isLike = (text: string, value: string): boolean =>
  value.endsWith('*') ? text.startsWith(value.slice(0, -1)) && text.length >= value.length : text === value;
