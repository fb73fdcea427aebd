import { createHmac, randomBytes } from 'node:crypto';
import { seal, unseal } from '#db/secrets/seal.ts';

/**
 * Webhooks: how their addresses and secrets are stored, and how a delivery is signed. Signatures follow the
 * Standard Webhooks specification, so that receivers can use an existing library.
 */

/**
 * The address of deliveries and their signing secret: sealed together, since an address is often a secret
 * itself.
 */
export type WebhookTarget = { url: string; secret: string };

const SECRET_BYTES = 32;
const SECRET_PREFIX = 'whsec_';

/** Creates a signing secret in the specification's format. It is shown once. */
export function createWebhookSecret(): string {
  return SECRET_PREFIX + randomBytes(SECRET_BYTES).toString('base64');
}

const PURPOSE = 'daybook webhook target';

/** Seals a target for the webhook with this id. */
export function sealTarget(pepper: Buffer, id: string, target: WebhookTarget): Buffer {
  return seal(pepper, PURPOSE, id, JSON.stringify(target));
}

/** @throws {Error} if it was sealed under another pepper or for another webhook, or was modified. */
export function unsealTarget(pepper: Buffer, id: string, sealed: Buffer): WebhookTarget {
  return JSON.parse(unseal(pepper, PURPOSE, id, sealed)) as WebhookTarget;
}

/**
 * The headers by which a receiver verifies the sender of a delivery.
 * @param id the same for each attempt, so that the receiver can deduplicate.
 * @param timestampS seconds since 1970; receivers reject old timestamps.
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
