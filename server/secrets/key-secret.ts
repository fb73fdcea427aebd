import { hash, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { randomBase62, toBase62 } from '#db/ids.ts';

/**
 * The plaintext of an API key: `dbk_`, the key's public id, `_`, 43 random base-62 characters
 * (256 bits) and the CRC-32 of all before it in 6 base-62 characters. The checksum lets a scanner
 * recognise a leaked key and lets us refuse a mistyped one without looking anything up.
 */
const GRAMMAR = /^dbk_[0-9A-Za-z]{8}_[0-9A-Za-z]{49}$/;
/** How every secret begins. */
export const SECRET_PREFIX = 'dbk_';
/** The same of management keys, which no relayed route accepts. */
export const MANAGEMENT_SECRET_PREFIX = 'dbm_';
const MANAGEMENT_GRAMMAR = /^dbm_[0-9A-Za-z]{8}_[0-9A-Za-z]{49}$/;
const KEY_ID_CHARACTERS = 8;
const RANDOM_CHARACTERS = 43;
const CHECKSUM_CHARACTERS = 6;
const SECRET_CHARACTERS =
  SECRET_PREFIX.length + KEY_ID_CHARACTERS + '_'.length + RANDOM_CHARACTERS + CHECKSUM_CHARACTERS;

/** A new secret for the key with this public id. It is shown once and never stored. */
export function createSecret(
  keyId: string,
  prefix: typeof SECRET_PREFIX | typeof MANAGEMENT_SECRET_PREFIX = SECRET_PREFIX,
): string {
  return withChecksum(`${prefix}${keyId}_${randomBase62(RANDOM_CHARACTERS)}`);
}

export const withChecksum = (unsigned: string): string => unsigned + checksum(unsigned);

/** The public id in a well-formed secret whose checksum is right; null for anything else. */
export function keyIdOf(secret: string): string | null {
  return GRAMMAR.test(secret) ? idIn(secret) : null;
}

/** The same for the secret of a management key. */
export function managementKeyIdOf(secret: string): string | null {
  return MANAGEMENT_GRAMMAR.test(secret) ? idIn(secret) : null;
}

/** Both prefixes are of one length. */
function idIn(secret: string): string | null {
  const unsigned = secret.slice(0, -CHECKSUM_CHARACTERS);
  return secret.endsWith(checksum(unsigned))
    ? secret.slice(SECRET_PREFIX.length, SECRET_PREFIX.length + KEY_ID_CHARACTERS)
    : null;
}

function checksum(text: string): string {
  return toBase62(crc32(text), CHECKSUM_CHARACTERS);
}

/**
 * HMAC-SHA-256 of a secret under the pepper, in hex: an attacker who can only write to the database can't
 * mint a key. Written as its two hashes (RFC 2104) over prepared blocks, since every call does it
 * and `createHmac` costs three times as much on Node 26 and eighteen times on Node 24.
 */
export function digestSecret(pepper: Buffer, secret: string): string {
  const { inner, exact, outer } = blocksOf(pepper);
  const length = inner.write(secret, BLOCK_BYTES, 'latin1');
  const message = length === SECRET_CHARACTERS ? exact : inner.subarray(0, BLOCK_BYTES + length);
  const innerDigest = hash('sha256', message, 'binary');
  outer.write(innerDigest, BLOCK_BYTES, 'latin1');
  return hash('sha256', outer, 'hex');
}

const BLOCK_BYTES = 64;
const DIGEST_BYTES = 32;
const SECRET_BYTES_MAX = 128;
/** `exact` is the part of `inner` that a well-formed secret fills, made once. */
type Blocks = { inner: Buffer; exact: Buffer; outer: Buffer };
const blocks = new WeakMap<Buffer, Blocks>();

function blocksOf(pepper: Buffer): Blocks {
  const known = blocks.get(pepper);
  if (known) return known;
  if (pepper.length > BLOCK_BYTES) throw new RangeError('the pepper is longer than a block of SHA-256');
  const inner = Buffer.alloc(BLOCK_BYTES + SECRET_BYTES_MAX, 0x36);
  const outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES, 0x5c);
  for (const [at, byte] of pepper.entries()) {
    inner[at] = byte ^ 0x36;
    outer[at] = byte ^ 0x5c;
  }
  const made = { inner, exact: inner.subarray(0, BLOCK_BYTES + SECRET_CHARACTERS), outer };
  blocks.set(pepper, made);
  return made;
}

const HEX_CHARACTERS = DIGEST_BYTES * 2;
const left = Buffer.alloc(HEX_CHARACTERS);
const right = Buffer.alloc(HEX_CHARACTERS);

/**
 * Compares two digests in hex, in constant time. They are kept as strings and copied to be
 * compared, because a buffer for each of many keys makes every garbage collection dearer.
 */
export function sameDigest(digest: string, stored: string): boolean {
  left.write(digest, 'latin1');
  right.write(stored, 'latin1');
  return timingSafeEqual(left, right) && digest.length === stored.length;
}
