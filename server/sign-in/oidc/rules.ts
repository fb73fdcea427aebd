import type { IdentityRule } from '#db/events/identity-events.ts';

/** Reads the claims that a provider states about a person. Pure. */

/** Groups that are read: more are cut, which no rule can need. */
const GROUPS_MAX = 2_000;
const PATH_PARTS_MAX = 5;

/** The first rule that a person with these groups falls under; null: they have no access. */
export function findRule(rules: readonly IdentityRule[], groups: readonly string[]): IdentityRule | null {
  const all = new Set(groups);
  return rules.find(({ group }) => group === null || all.has(group)) ?? null;
}

/**
 * The groups in a claim: a list of texts, or one text.
 * @param name the claim's name, or the path to it within others.
 * @returns null if the claim is absent.
 */
export function groupsIn(claims: Readonly<Record<string, unknown>>, name: string): string[] | null {
  const value = Object.hasOwn(claims, name) ? claims[name] : valueAt(claims, name.split('.'));
  if (typeof value === 'string') return [value];
  if (!Array.isArray(value)) return null;
  return value.filter((group) => typeof group === 'string').slice(0, GROUPS_MAX);
}

/** Whether a token names another source for its groups, as Entra ID does for members of over 200 groups. */
export function groupsAreElsewhere(claims: Readonly<Record<string, unknown>>, name: string): boolean {
  return groupsIn(claims, name) === null && valueAt(claims, ['_claim_names', name]) !== undefined;
}

function valueAt(claims: unknown, path: readonly string[]): unknown {
  let value = claims;
  for (const part of path.slice(0, PATH_PARTS_MAX)) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Record<string, unknown>)[part];
  }
  return value;
}
