import { type AccountKey, type Named, openAccountKey, openValue, pseudonymOf } from '#db/attribution/keys.ts';
import { readAccountKeys, readSealedValues } from '#db/attribution/store.ts';
import { type AttributionKind, normalizeValue } from '#db/attribution/value.ts';
import type { Queryable } from '#db/schema/query.ts';
import type { MasterKeys } from '#db/secrets/envelope.ts';

/** What pseudonyms stand for, for those who may read it: the account's members and administrators. */

/** The place of a pseudonym in what {@link readNames} returns. */
export const nameKey = ({ kind, pseudonym }: Named): string => `${kind}/${pseudonym}`;

/**
 * The key of an account, opened.
 * @returns null where it has none: no call was attributed, or its key was destroyed.
 * @throws {UnknownMasterKeyError} if it is sealed under a master key that is not among these.
 */
export async function readAccountKey(
  client: Queryable,
  keys: MasterKeys,
  account: string,
): Promise<AccountKey | null> {
  const [stored] = await readAccountKeys(client, [account]);
  return stored !== undefined && 'sealed' in stored ? openAccountKey(keys, stored) : null;
}

/**
 * The readable values of pseudonyms of an account, by their {@link nameKey}. Those that were erased, never
 * stored, or sealed under a key that was destroyed are missing.
 */
export async function readNames(
  client: Queryable,
  key: AccountKey,
  named: readonly Named[],
): Promise<Map<string, string>> {
  const names = new Map<string, string>();
  if (named.length === 0) return names;
  for (const { sealed, ...each } of await readSealedValues(client, key.account, named)) {
    try {
      names.set(nameKey(each), openValue(key, each, sealed));
    } catch {
      // The row was modified, or moved from elsewhere: there is no value that could be believed.
    }
  }
  return names;
}

/** The pseudonym of a value as clients send it; null where it is not valid, so that no call has it. */
export function findPseudonym(key: AccountKey, kind: AttributionKind, text: string): string | null {
  const value = normalizeValue(text);
  return value === null ? null : pseudonymOf(key, kind, value);
}
