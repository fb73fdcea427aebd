import { createHmac, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { randomBase62, toBase62 } from '#db/ids.ts';

/**
 * The plaintext of an API key: `dbk_`, the key's public id, `_`, 43 random base-62 characters
 * (256 bits) and the CRC-32 of all before it in 6 base-62 characters. The checksum lets a scanner
 * recognise a leaked key and lets us refuse a mistyped one without looking anything up.
 */
const GRAMMAR = /^dbk_([0-9A-Za-z]{8})_[0-9A-Za-z]{49}$/;
const RANDOM_CHARACTERS = 43;
const CHECKSUM_CHARACTERS = 6;

/** A new secret for the key with this public id. It is shown once and never stored. */
export function createSecret(keyId: string): string {
  const unsigned = `dbk_${keyId}_${randomBase62(RANDOM_CHARACTERS)}`;
  return unsigned + checksum(unsigned);
}

/** The public id in a well-formed secret whose checksum is right; null for anything else. */
export function keyIdOf(secret: string): string | null {
  const match = GRAMMAR.exec(secret);
  if (!match) return null;
  const unsigned = secret.slice(0, -CHECKSUM_CHARACTERS);
  return secret.endsWith(checksum(unsigned)) ? (match[1] as string) : null;
}

function checksum(text: string): string {
  return toBase62(crc32(text), CHECKSUM_CHARACTERS);
}

/** HMAC-SHA-256 under the pepper: whoever can only write to the database can't mint a key. */
export function digestSecret(pepper: Buffer, secret: string): Buffer {
  return createHmac('sha256', pepper).update(secret).digest();
}

/** Compares two digests in constant time. */
export function sameDigest(left: Buffer, right: Buffer): boolean {
  return left.length === right.length && timingSafeEqual(left, right);
}
