import { type Named, openAccountKey, openValue, pseudonymOf } from '#db/attribution/keys.ts';
import { readAccountKeys, readSealedValues } from '#db/attribution/store.ts';
import { type AttributionKind, normalizeValue } from '#db/attribution/value.ts';
import type { Queryable } from '#db/schema/query.ts';
import type { MasterKeys } from '#db/secrets/envelope.ts';

/** What pseudonyms stand for, for those who may read it: the account's members and administrators. */

/** The place of a pseudonym in what {@link readNames} returns. */
export const nameKey = ({ kind, pseudonym }: Named): string => `${kind}/${pseudonym}`;

/**
 * The readable values of pseudonyms of an account, by their {@link nameKey}. Those that were erased, never
 * stored, or sealed under a key that was destroyed are missing.
 * @throws {UnknownMasterKeyError} if the account's key is sealed under a master key that is not among these.
 */
export async function readNames(
  client: Queryable,
  keys: MasterKeys,
  account: string,
  named: readonly Named[],
): Promise<Map<string, string>> {
  const names = new Map<string, string>();
  if (named.length === 0) return names;
  const [stored] = await readAccountKeys(client, [account]);
  if (stored === undefined || !('sealed' in stored)) return names;
  const key = openAccountKey(keys, stored);
  for (const { sealed, ...each } of await readSealedValues(client, account, named)) {
    try {
      names.set(nameKey(each), openValue(key, each, sealed));
    } catch {
      // The row was modified, or moved from elsewhere: there is no value that could be believed.
    }
  }
  return names;
}

/**
 * The pseudonym of a value in an account, as calls have it.
 * @returns null where the account has no key, so that no call has it; or the value is not valid.
 * @throws {UnknownMasterKeyError} as {@link readNames}.
 */
export async function findPseudonym(
  client: Queryable,
  keys: MasterKeys,
  account: string,
  kind: AttributionKind,
  text: string,
): Promise<string | null> {
  const value = normalizeValue(text);
  const [stored] = await readAccountKeys(client, [account]);
  if (value === null || stored === undefined || !('sealed' in stored)) return null;
  return pseudonymOf(openAccountKey(keys, stored), kind, value);
}
