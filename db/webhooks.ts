import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto';

/**
 * Webhooks: how their addresses and secrets lie in the database, and how a delivery is signed, which
 * is by the Standard Webhooks scheme, so that receivers can use a library they may have.
 */

/** Where deliveries go and what they are signed with: sealed as one, since an address is often a secret itself. */
export type Target = { url: string; secret: string };

const SECRET_BYTES = 32;
const SECRET_PREFIX = 'whsec_';
const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** A new secret to sign with, in the scheme's spelling. It is shown once. */
export function createWebhookSecret(): string {
  return SECRET_PREFIX + randomBytes(SECRET_BYTES).toString('base64');
}

/** Seals a target for the webhook with this id: nonce, tag, and what only the pepper's holder can read. */
export function sealTarget(pepper: Buffer, id: string, target: Target): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, sealKey(pepper), nonce).setAAD(Buffer.from(id));
  const sealed = Buffer.concat([cipher.update(JSON.stringify(target)), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), sealed]);
}

/** @throws {Error} when it was sealed under another pepper, for another webhook, or has been changed. */
export function openTarget(pepper: Buffer, id: string, sealed: Buffer): Target {
  const decipher = createDecipheriv(CIPHER, sealKey(pepper), sealed.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
    .setAAD(Buffer.from(id))
    .setAuthTag(sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
  const text = Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]);
  return JSON.parse(text.toString()) as Target;
}

/** A key of its own, so that nothing sealed with it says anything about digests of keys. */
function sealKey(pepper: Buffer): Buffer {
  return Buffer.from(hkdfSync('sha256', pepper, '', 'daybook webhook target', KEY_BYTES));
}

/**
 * The headers that let a receiver check where a delivery is from.
 * @param id the same for each attempt, so that the receiver can tell what it has had.
 * @param timestampS seconds since 1970; receivers refuse what is old.
 */
export function signedHeaders(secret: string, id: string, timestampS: number, body: string): Record<string, string> {
  const key = Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64');
  const signature = createHmac('sha256', key).update(`${id}.${timestampS}.${body}`).digest('base64');
  return { 'webhook-id': id, 'webhook-timestamp': String(timestampS), 'webhook-signature': `v1,${signature}` };
}
