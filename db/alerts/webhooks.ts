import { createHmac, randomBytes } from 'node:crypto';
import { seal, unseal } from '#db/secrets/seal.ts';

/**
 * Webhooks: how their addresses and secrets lie in the database, and how a delivery is signed, which
 * is by the Standard Webhooks scheme, so that receivers can use a library they may have.
 */

/**
 * Where deliveries go and what they are signed with: sealed as one, since an address is often a secret
 * itself.
 */
export type WebhookTarget = { url: string; secret: string };

const SECRET_BYTES = 32;
const SECRET_PREFIX = 'whsec_';

/** A new secret to sign with, in the scheme's spelling. It is shown once. */
export function createWebhookSecret(): string {
  return SECRET_PREFIX + randomBytes(SECRET_BYTES).toString('base64');
}

const PURPOSE = 'daybook webhook target';

/** Seals a target for the webhook with this id. */
export function sealTarget(pepper: Buffer, id: string, target: WebhookTarget): Buffer {
  return seal(pepper, PURPOSE, id, JSON.stringify(target));
}

/** @throws {Error} when it was sealed under another pepper, for another webhook, or has been changed. */
export function unsealTarget(pepper: Buffer, id: string, sealed: Buffer): WebhookTarget {
  return JSON.parse(unseal(pepper, PURPOSE, id, sealed)) as WebhookTarget;
}

/**
 * The headers that let a receiver check where a delivery is from.
 * @param id the same for each attempt, so that the receiver can tell what it has had.
 * @param timestampS seconds since 1970; receivers refuse what is old.
 */
export function signedHeaders(
  secret: string,
  id: string,
  timestampS: number,
  body: string,
): Record<string, string> {
  const key = Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64');
  const signature = createHmac('sha256', key).update(`${id}.${timestampS}.${body}`).digest('base64');
  return {
    'webhook-id': id,
    'webhook-timestamp': String(timestampS),
    'webhook-signature': `v1,${signature}`,
  };
}
