import type { IdentityRule } from '#db/events/identity/identity-events.ts';

/** Reads the claims that a provider states about a person. Pure. */

/** Groups that are read: more are cut, which no rule can need. */
const GROUPS_MAX = 2_000;
const PATH_PARTS_MAX = 8;

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
  const value = claimOf(claims, name);
  if (typeof value === 'string') return [value];
  if (!Array.isArray(value)) return null;
  return value.filter((group) => typeof group === 'string').slice(0, GROUPS_MAX);
}

/** Whether a token names another source for its groups, as Entra ID does for members of over 200 groups. */
export function groupsAreElsewhere(claims: Readonly<Record<string, unknown>>, name: string): boolean {
  return groupsIn(claims, name) === null && valueAt(claims, ['_claim_names', name]) !== undefined;
}

/**
 * A claim by its name, or by the path to it within others; undefined: none. Names may have dots themselves,
 * as `kubernetes.io` in `kubernetes.io.namespace`.
 */
export function claimOf(claims: Readonly<Record<string, unknown>>, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name];
  const path = name.split('.');
  return path.length > PATH_PARTS_MAX ? undefined : valueAt(claims, path);
}

function valueAt(value: unknown, path: readonly string[]): unknown {
  if (path.length === 0) return value;
  if (typeof value !== 'object' || value === null) return undefined;
  for (let taken = path.length; taken > 0; taken--) {
    const name = path.slice(0, taken).join('.');
    if (!Object.hasOwn(value, name)) continue;
    const found = valueAt((value as Record<string, unknown>)[name], path.slice(taken));
    if (found !== undefined) return found;
  }
  return undefined;
}
