import { ApiError } from '#server/errors/api-error.ts';
import { isRecord } from '#server/providers/anthropic/content.ts';
import { insideQuotes, membersOf, objectOf } from '#server/wire/raw-json.ts';
import type { ProviderError } from '#server/providers/provider.ts';

/** Errors in Anthropic's words: `{"type":"error","error":{"type":…,"message":…}}`. Pure. */

/** Error types of an upstream that is overloaded. */
const BUSY = new Set(['overloaded_error', 'rate_limit_error']);

/**
 * What a reply says whose status is no success. The position that it may name is one in our translation, so
 * no field is named.
 */
export function parseError(body: Buffer): ProviderError | null {
  try {
    const fault = JSON.parse(body.toString()) as unknown;
    const error = isRecord(fault) && isRecord(fault['error']) ? fault['error'] : null;
    const message = error?.['message'];
    return typeof message === 'string' && message !== '' ? { message, param: null } : null;
  } catch {
    return null;
  }
}

/**
 * An error in the middle of a reply, or under a status that says success, in the relay's own words: the
 * provider's may contain credentials and addresses, and its type is all that a client can act on.
 * @param error the error object, as JSON. @returns an error object in the convention's shape, as JSON.
 */
export function relayedError(error: string | undefined): string {
  const type = insideQuotes(membersOf(error ?? '').get('type'));
  if (type === 'timeout_error') return new ApiError('upstream_timeout').errorJson();
  return new ApiError(
    type !== null && BUSY.has(type) ? 'upstream_rate_limited' : 'upstream_error',
  ).errorJson();
}

/** Anthropic's error types by status; its SDKs and agents choose their advice by them. */
const TYPES: Record<number, string> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
};

/** A refusal as a client of Anthropic's Messages reads it: a reply's body, or the data of an event. */
export function messagesErrorBody(refusal: ApiError, requestId: string): string {
  const type = TYPES[refusal.status] ?? (refusal.status < 500 ? 'invalid_request_error' : 'api_error');
  const error = objectOf({
    type: JSON.stringify(type),
    message: JSON.stringify(refusal.message),
    code: JSON.stringify(refusal.code),
    param: refusal.param === null ? null : JSON.stringify(refusal.param),
  });
  return objectOf({ type: '"error"', error, request_id: JSON.stringify(requestId) });
}

/** The same in the middle of a streamed reply. */
export function messagesErrorEvent(refusal: ApiError, requestId: string): string {
  return `event: error\ndata: ${messagesErrorBody(refusal, requestId)}\n\n`;
}
