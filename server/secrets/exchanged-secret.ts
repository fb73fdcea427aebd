import { timingSafeEqual } from 'node:crypto';
import { bigToBase62, fromBase62, toBase62 } from '#db/ids.ts';
import { digestSecret, SECRET_PREFIX, withChecksum } from '#server/secrets/key-secret.ts';

/**
 * The secret of a short-lived key. It looks like that of any key, and no server stores it: in place of random
 * characters it has its expiry, its public id, and a MAC of both and of the key that it stands for. So any
 * server verifies it, and none of them costs memory.
 */
const EXPIRY_CHARACTERS = 6;
const ID_CHARACTERS = 8;
/** 172 bits. */
const MAC_CHARACTERS = 29;
const STATED_CHARACTERS = SECRET_PREFIX.length + 8 + '_'.length + EXPIRY_CHARACTERS + ID_CHARACTERS;

/** @param expiresMs by PostgreSQL's clock, in milliseconds since 1970; whole seconds. */
export function createExchangedSecret(
  pepper: Buffer,
  { key, exchange, expiresMs }: { key: string; exchange: string; expiresMs: number },
): string {
  const expiry = toBase62(Math.floor(expiresMs / 1_000), EXPIRY_CHARACTERS);
  const stated = `${SECRET_PREFIX}${key}_${expiry}${exchange}`;
  return withChecksum(stated + macOf(pepper, stated));
}

/**
 * The expiry of a secret, in milliseconds since 1970; null: it was not made here.
 * @param secret a well-formed one.
 */
export function readExchangedSecret(pepper: Buffer, secret: string): number | null {
  const stated = secret.slice(0, STATED_CHARACTERS);
  const mac = secret.slice(STATED_CHARACTERS, STATED_CHARACTERS + MAC_CHARACTERS);
  if (!timingSafeEqual(Buffer.from(mac, 'latin1'), Buffer.from(macOf(pepper, stated), 'latin1'))) return null;
  const from = STATED_CHARACTERS - EXPIRY_CHARACTERS - ID_CHARACTERS;
  return fromBase62(stated.slice(from, from + EXPIRY_CHARACTERS)) * 1_000;
}

/** Of a text that is no secret, so that no digest of a secret is a MAC. */
const macOf = (pepper: Buffer, stated: string): string =>
  bigToBase62(BigInt(`0x${digestSecret(pepper, `exchanged ${stated}`)}`), MAC_CHARACTERS);
