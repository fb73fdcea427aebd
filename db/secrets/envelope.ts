import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto';
import { seal, unseal } from '#db/secrets/seal.ts';

/**
 * How what upstreams ask for lies in the database: each secret sealed under a random data key of its
 * own, and that data key wrapped by the master key. So another master key rewraps small keys and opens
 * no secret. All of AES-256-GCM, bound to whose it is: a row that was moved or changed does not open.
 */

export const MASTER_KEY_BYTES = 32;
const DATA_KEY_BYTES = 32;
/**
 * Of the shape of an envelope: part of what it is bound to, so that a later shape is not taken for this one.
 */
const VERSION = 1;

const SECRET = 'daybook credential secret';
const DATA_KEY = 'daybook credential data key';
const FINGERPRINT = 'daybook credential fingerprint';

/** The current one, which new data keys are wrapped by, and all that may open one, by their ids. */
export type MasterKeys = { current: string; all: ReadonlyMap<string, Buffer> };

/** Whose secret it is. It opens for nobody else. */
export type Owner = { id: string; upstream: string };

/** A secret as it lies in the database. */
export type Envelope = {
  sealed_secret: Buffer;
  wrapped_key: Buffer;
  /** The id of the master key that the data key is wrapped by. */
  master_key: string;
  fingerprint: Buffer;
};
export type Wrapped = Pick<Envelope, 'wrapped_key' | 'master_key'>;

/** The data key is wrapped by a master key that is not at hand. */
export class UnknownMasterKeyError extends Error {
  override name = 'UnknownMasterKeyError';
  readonly masterKey: string;
  constructor(masterKey: string) {
    super(`it is sealed under the master key ${masterKey}, which is not at hand`);
    this.masterKey = masterKey;
  }
}

/** What a master key is known by in the database, which does not tell it. */
export const masterKeyId = (key: Buffer): string => createHmac('sha256', key).update('daybook master key').digest('hex').slice(0, 16);

/** Seals a secret under a data key of its own, for good. */
export function sealSecret(keys: MasterKeys, owner: Owner, secret: string): Envelope {
  const dataKey = randomBytes(DATA_KEY_BYTES);
  return { sealed_secret: seal(dataKey, SECRET, boundTo(owner), secret), fingerprint: fingerprintOf(dataKey, secret), ...wrap(keys, owner, dataKey) };
}

/**
 * @throws {UnknownMasterKeyError} when its master key is none of these.
 * @throws {Error} when it is another's, or has been changed. The message tells nothing of it.
 */
export function openSecret(keys: MasterKeys, owner: Owner, envelope: Pick<Envelope, 'sealed_secret'> & Wrapped): string {
  return unseal(unwrap(keys, owner, envelope), SECRET, boundTo(owner), envelope.sealed_secret);
}

/**
 * Whether a secret is the one that is sealed here; the sealed one is not opened. @throws as {@link
 * openSecret}.
 */
export function matchesSecret(keys: MasterKeys, owner: Owner, envelope: Pick<Envelope, 'fingerprint'> & Wrapped, secret: string): boolean {
  return timingSafeEqual(fingerprintOf(unwrap(keys, owner, envelope), secret), envelope.fingerprint);
}

/** The same data key, wrapped by the current master key. @throws as {@link openSecret}. */
export const rewrap = (keys: MasterKeys, owner: Owner, wrapped: Wrapped): Wrapped => wrap(keys, owner, unwrap(keys, owner, wrapped));

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
 * Of a key made from the data key, so that equal secrets of two rows don't look alike, and no new master key
 * needs it made anew.
 */
const fingerprintOf = (dataKey: Buffer, secret: string): Buffer =>
  createHmac('sha256', Buffer.from(hkdfSync('sha256', dataKey, '', FINGERPRINT, DATA_KEY_BYTES))).update(secret).digest();

const boundTo = ({ id, upstream }: Owner): string => `daybook.credential/${id}/${upstream}/${VERSION}`;
