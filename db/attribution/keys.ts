import { createHmac, hkdfSync, randomBytes } from 'node:crypto';
import type { AttributionKind } from '#db/attribution/value.ts';
import { type MasterKeys, UnknownMasterKeyError } from '#db/secrets/envelope.ts';
import { seal, unseal } from '#db/secrets/seal.ts';

/**
 * The cryptography of attribution. Each account has a random key. A pseudonym is an HMAC under it, so that
 * the same value has one pseudonym in an account and unrelated ones in two accounts, and a guess
 * can't be tested without the key. Readable values are sealed under a key that is derived from it.
 */

const KEY_BYTES = 32;
const KEY = 'daybook attribution key';
const VALUE = 'daybook attribution value';

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const PSEUDONYM_LENGTH = 16;
const BASE = 62n;

/** The opened key of an account. */
export type AccountKey = {
  account: string;
  /** The account's keys are numbered from 1. */
  generation: number;
  /** Of the pseudonyms. */
  key: Buffer;
  /** Of the sealed values. */
  valueKey: Buffer;
};

/** A key as it is stored. */
export type SealedKey = { account: string; generation: number; sealed: Buffer; master_key: string };

/** A pseudonym of an end user, a session or a tag. */
export type Named = { kind: AttributionKind; pseudonym: string };

/** A new random key of an account, sealed under the current master key. */
export function createAccountKey(keys: MasterKeys, account: string, generation: number): SealedKey {
  return sealKey(keys, account, generation, randomBytes(KEY_BYTES));
}

/**
 * @throws {UnknownMasterKeyError} if its master key is not among these.
 * @throws {Error} if the row was modified.
 */
export function openAccountKey({ all }: MasterKeys, sealedKey: SealedKey): AccountKey {
  const { account, generation, sealed, master_key } = sealedKey;
  const masterKey = all.get(master_key);
  if (!masterKey) throw new UnknownMasterKeyError(master_key);
  const key = Buffer.from(unseal(masterKey, KEY, keyBoundTo(account, generation), sealed), 'hex');
  const valueKey = Buffer.from(hkdfSync('sha256', key, '', VALUE, KEY_BYTES));
  return { account, generation, key, valueKey };
}

/** The same key, sealed under the current master key. @throws as {@link openAccountKey}. */
export function rewrapAccountKey(keys: MasterKeys, sealedKey: SealedKey): SealedKey {
  const { account, generation, key } = openAccountKey(keys, sealedKey);
  return sealKey(keys, account, generation, key);
}

function sealKey({ current, all }: MasterKeys, account: string, generation: number, key: Buffer): SealedKey {
  const masterKey = all.get(current);
  if (!masterKey) throw new UnknownMasterKeyError(current);
  const sealed = seal(masterKey, KEY, keyBoundTo(account, generation), key.toString('hex'));
  return { account, generation, sealed, master_key: current };
}

/**
 * The pseudonym of a value: 16 digits in base 62, of the first 128 bits of
 * HMAC-SHA-256(key, kind ‖ 0x00 ‖ value).
 */
export function pseudonymOf({ key }: Pick<AccountKey, 'key'>, kind: AttributionKind, value: string): string {
  const digest = createHmac('sha256', key).update(`${kind}\0${value}`).digest('hex');
  let rest = BigInt(`0x${digest.slice(0, 32)}`);
  let pseudonym = '';
  for (let digit = 0; digit < PSEUDONYM_LENGTH; digit++) {
    pseudonym += DIGITS[Number(rest % BASE)] as string;
    rest /= BASE;
  }
  return pseudonym;
}

/** Seals a readable value: it opens for its own pseudonym only. */
export function sealValue({ account, valueKey }: AccountKey, named: Named, value: string): Buffer {
  return seal(valueKey, VALUE, valueBoundTo(account, named), value);
}

/** @throws {Error} if it was sealed under another key or for another pseudonym, or was modified. */
export function openValue({ account, valueKey }: AccountKey, named: Named, sealed: Buffer): string {
  return unseal(valueKey, VALUE, valueBoundTo(account, named), sealed);
}

const keyBoundTo = (account: string, generation: number): string =>
  `daybook.attribution_key/${account}/${generation}`;
const valueBoundTo = (account: string, { kind, pseudonym }: Named): string =>
  `daybook.attribution_value/${account}/${kind}/${pseudonym}`;
