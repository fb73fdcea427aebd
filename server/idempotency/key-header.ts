import { createHmac } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { ApiError } from '#server/errors/api-error.ts';
import { KEY_CHARACTERS_MAX } from '#server/idempotency/bounds.ts';

/** The header `Idempotency-Key`, and the identity of the request that it comes with. Pure. */

const HEADER = 'idempotency-key';
const VALUE = new RegExp(`^[\\x20-\\x7e]{1,${KEY_CHARACTERS_MAX}}$`);

/** The value of the header; null: it was not sent. */
export function readIdempotencyKey({
  headers,
  rawHeaders,
}: Pick<IncomingMessage, 'headers' | 'rawHeaders'>): string | null | ApiError {
  const value = headers[HEADER];
  if (value === undefined) return null;
  const count = rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === HEADER).length;
  return typeof value === 'string' && count === 1 && VALUE.test(value)
    ? value
    : new ApiError('invalid_idempotency_key');
}

/** A key of one API key as it is stored, and what its repeats must equal. */
export type KeyIdentity = { digest: Buffer; fingerprint: Buffer };

export type IdentifiedRequest = {
  /** The id of the API key. */
  key: string;
  idempotencyKey: string;
  /** With the query, since Gemini's clients name the model and the form of the reply there. */
  target: string;
  /** Headers of the client's protocol, in pairs. */
  protocolHeaders: readonly string[];
  body: Buffer;
};

/**
 * Under the pepper, so that neither keys nor prompts can be guessed from the database. All of these requests
 * are POST.
 */
export function identifyRequest(
  pepper: Buffer,
  { key, idempotencyKey, target, protocolHeaders, body }: IdentifiedRequest,
): KeyIdentity {
  const keyed = (purpose: string, parts: readonly string[]) =>
    createHmac('sha256', pepper).update(`${JSON.stringify([`daybook idempotency ${purpose}`, ...parts])}\n`);
  return {
    digest: keyed('key', [key, idempotencyKey]).digest(),
    fingerprint: keyed('fingerprint', ['POST', target, ...protocolHeaders])
      .update(body)
      .digest(),
  };
}
