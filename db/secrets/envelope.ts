import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto';
import { seal, unseal } from '#db/secrets/seal.ts';

/**
 * Envelope encryption of upstream credentials: each secret is sealed under a random data key of its own, and
 * the data key is wrapped by the master key. Rotating the master key rewraps the data keys and opens no
 * secret. All with AES-256-GCM with the credential's identity as associated data: a row that was moved or
 * modified does not open.
 */

export const MASTER_KEY_BYTES = 32;
const DATA_KEY_BYTES = 32;
/**
 * The version of the envelope's format: part of the associated data, so that formats can't be confused.
 */
const VERSION = 1;

const SECRET = 'daybook credential secret';
const DATA_KEY = 'daybook credential data key';
const FINGERPRINT = 'daybook credential fingerprint';

/** The current master key, which wraps new data keys, and all that may unwrap one, by their ids. */
export type MasterKeys = { current: string; all: ReadonlyMap<string, Buffer> };

/** The credential that a secret belongs to: it opens for no other one. */
export type Owner = { id: string; upstream: string };

/** A secret as it is stored. */
export type Envelope = {
  sealed_secret: Buffer;
  wrapped_key: Buffer;
  /** The id of the master key that the data key is wrapped by. */
  master_key: string;
  fingerprint: Buffer;
};
export type Wrapped = Pick<Envelope, 'wrapped_key' | 'master_key'>;

/** The data key is wrapped by a master key that is not available. */
export class UnknownMasterKeyError extends Error {
  override name = 'UnknownMasterKeyError';
  readonly masterKey: string;
  constructor(masterKey: string) {
    super(`it is sealed under the master key ${masterKey}, which is not available`);
    this.masterKey = masterKey;
  }
}

/** The id of a master key in the database, which does not reveal the key. */
export const masterKeyId = (key: Buffer): string =>
  createHmac('sha256', key).update('daybook master key').digest('hex').slice(0, 16);

/** Seals a secret under a new data key. */
export function sealSecret(keys: MasterKeys, owner: Owner, secret: string): Envelope {
  const dataKey = randomBytes(DATA_KEY_BYTES);
  return {
    sealed_secret: seal(dataKey, SECRET, boundTo(owner), secret),
    fingerprint: fingerprintOf(dataKey, secret),
    ...wrap(keys, owner, dataKey),
  };
}

/**
 * @throws {UnknownMasterKeyError} if its master key is not among these.
 * @throws {Error} if it belongs to another credential or was modified. The message does not contain the
 * secret.
 */
export function openSecret(
  keys: MasterKeys,
  owner: Owner,
  envelope: Pick<Envelope, 'sealed_secret'> & Wrapped,
): string {
  return unseal(unwrap(keys, owner, envelope), SECRET, boundTo(owner), envelope.sealed_secret);
}

/**
 * Whether a secret equals the sealed one, which is not opened. @throws as {@link openSecret}.
 */
export function matchesSecret(
  keys: MasterKeys,
  owner: Owner,
  envelope: Pick<Envelope, 'fingerprint'> & Wrapped,
  secret: string,
): boolean {
  return timingSafeEqual(fingerprintOf(unwrap(keys, owner, envelope), secret), envelope.fingerprint);
}

/** The same data key, wrapped by the current master key. @throws as {@link openSecret}. */
export const rewrap = (keys: MasterKeys, owner: Owner, wrapped: Wrapped): Wrapped =>
  wrap(keys, owner, unwrap(keys, owner, wrapped));

function wrap({ current, all }: MasterKeys, owner: Owner, dataKey: Buffer): Wrapped {
  const key = all.get(current);
  if (!key) throw new UnknownMasterKeyError(current);
  return { wrapped_key: seal(key, DATA_KEY, boundTo(owner), dataKey.toString('hex')), master_key: current };
}

function unwrap({ all }: MasterKeys, owner: Owner, { wrapped_key, master_key }: Wrapped): Buffer {
  const key = all.get(master_key);
  if (!key) throw new UnknownMasterKeyError(master_key);
  return Buffer.from(unseal(key, DATA_KEY, boundTo(owner), wrapped_key), 'hex');
}

/**
 * Keyed with a key derived from the data key, so that equal secrets of two rows have different fingerprints,
 * and rotating the master key keeps them.
 */
const fingerprintOf = (dataKey: Buffer, secret: string): Buffer =>
  createHmac('sha256', Buffer.from(hkdfSync('sha256', dataKey, '', FINGERPRINT, DATA_KEY_BYTES)))
    .update(secret)
    .digest();

const boundTo = ({ id, upstream }: Owner): string => `daybook.credential/${id}/${upstream}/${VERSION}`;
