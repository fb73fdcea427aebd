import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

/** Authenticated encryption of stored secrets, so that a backup of the database does not reveal them. */

const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Seals a text or bytes. @returns nonce, tag and ciphertext.
 * @param purpose derives a key of its own, independent of the digests of keys and of other purposes.
 * @param id of the owner, as associated data: the text opens for no other id.
 */
export function seal(pepper: Buffer, purpose: string, id: string, text: string | Buffer): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, sealKey(pepper, purpose), nonce).setAAD(Buffer.from(id));
  const bytes = typeof text === 'string' ? Buffer.from(text) : text;
  const sealed = Buffer.concat([cipher.update(bytes), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), sealed]);
}

/**
 * @throws {Error} if it was sealed under another pepper, for another purpose or id, or was modified.
 */
export const unseal = (pepper: Buffer, purpose: string, id: string, sealed: Buffer): string =>
  unsealBytes(pepper, purpose, id, sealed).toString();

/** The same for sealed bytes. @throws as {@link unseal}. */
export function unsealBytes(pepper: Buffer, purpose: string, id: string, sealed: Buffer): Buffer {
  const decipher = createDecipheriv(CIPHER, sealKey(pepper, purpose), sealed.subarray(0, NONCE_BYTES), {
    authTagLength: TAG_BYTES,
  })
    .setAAD(Buffer.from(id))
    .setAuthTag(sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
  return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]);
}

function sealKey(pepper: Buffer, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', pepper, '', purpose, KEY_BYTES));
}
