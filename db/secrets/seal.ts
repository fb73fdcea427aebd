import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

/** How what has to be read again lies in the database: sealed, so that a backup of it shows nothing. */

const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Seals a text: nonce, tag, and what only the pepper's holder can read.
 * @param purpose gives a key of its own, so that nothing sealed with it says anything about digests
 * of keys, or can be opened as something else.
 * @param id of whom it is; it opens for nobody else.
 */
export function seal(pepper: Buffer, purpose: string, id: string, text: string): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, sealKey(pepper, purpose), nonce).setAAD(Buffer.from(id));
  const sealed = Buffer.concat([cipher.update(text), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), sealed]);
}

/**
 * @throws {Error} when it was sealed under another pepper, for another purpose or id, or has been changed.
 */
export function unseal(pepper: Buffer, purpose: string, id: string, sealed: Buffer): string {
  const decipher = createDecipheriv(CIPHER, sealKey(pepper, purpose), sealed.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
    .setAAD(Buffer.from(id))
    .setAuthTag(sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
  return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]).toString();
}

function sealKey(pepper: Buffer, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', pepper, '', purpose, KEY_BYTES));
}
