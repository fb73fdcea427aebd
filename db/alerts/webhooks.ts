import { createHmac, randomBytes } from 'node:crypto';

/**
 * Signatures of webhooks. They follow the Standard Webhooks specification, so that receivers can use an
 * existing library.
 */

const SECRET_BYTES = 32;
const SECRET_PREFIX = 'whsec_';

/** Creates a signing secret in the specification's format. It is shown once. */
export function createWebhookSecret(): string {
  return SECRET_PREFIX + randomBytes(SECRET_BYTES).toString('base64');
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
