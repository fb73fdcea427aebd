import { describe, expect, test } from 'vitest';
import { ERROR_CATALOGUE, type ErrorCode, ApiError } from '#server/errors/api-error.ts';

const CODES = Object.keys(ERROR_CATALOGUE) as ErrorCode[];
const REQUEST = '01900000-0000-7000-8000-000000000001';

/** A type that clients know, for each status. */
const TYPES: Record<number, string> = {
  401: 'authentication_error',
  403: 'permission_error',
  429: 'rate_limit_error',
};
// OpenAI gives a spent quota a type of its own, and clients look for it.
const typeOf = (code: ErrorCode, status: number): string =>
  code === 'insufficient_quota'
    ? code
    : (TYPES[status] ?? (status >= 500 ? 'server_error' : 'invalid_request_error'));

/** Headers as an object, each name once. */
function headersOf(refusal: ApiError): Record<string, string> {
  const list = refusal.headers(REQUEST, 10);
  const names = list.filter((_, index) => index % 2 === 0);
  expect(new Set(names).size).toBe(names.length);
  return Object.fromEntries(names.map((name, index) => [name, list[index * 2 + 1] as string]));
}

describe.each(CODES)('the refusal %s', (code) => {
  const refusal = new ApiError(code);

  test('is an error object of the shape that clients read, with its request id', () => {
    expect(JSON.parse(refusal.body(REQUEST))).toEqual({
      error: { message: refusal.message, type: typeOf(code, refusal.status), param: null, code },
      request_id: REQUEST,
    });
    expect(refusal.message).toMatch(/^[A-Z].*\.$/);
  });

  test('carries its headers', () => {
    const headers = headersOf(refusal);
    expect(headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'x-request-id': REQUEST,
      'content-length': '10',
    });
    expect('www-authenticate' in headers).toBe(refusal.status === 401);
    // Some clients retry a 401 unless this header is there.
    expect(headers['x-should-retry']).toBe(refusal.status === 401 ? 'false' : undefined);
  });

  test('says when to try again exactly where that may help', () => {
    // Neither the relay's own credential nor a spent quota is mended by waiting for seconds.
    const isLasting = code === 'upstream_unauthorized' || code === 'insufficient_quota';
    // What the next checkpoint or the end of a running request brings is only a matter of seconds.
    const isComing = ['receipt_not_ready', 'checkpoint_not_found', 'idempotency_key_in_use'].includes(code);
    const mayHelp = isComing || ((refusal.status === 429 || refusal.status >= 500) && !isLasting);
    const { 'retry-after': retryAfter } = headersOf(refusal);
    expect(retryAfter !== undefined).toBe(mayHelp);
    // Longer waits put clients to sleep in silence.
    if (retryAfter !== undefined)
      expect(Number(retryAfter)).toSatisfy(
        (seconds) => Number.isInteger(seconds) && seconds >= 1 && seconds <= 60,
      );
  });

  test('of a fault of ours never looks like one of the key, the account or a limit', () => {
    const isOurs =
      /^(internal|upstream_(?!rejected)|store|query|relay|model_paused|shutting)/.test(code) ||
      /^(limit|attribution|provider)_unavailable$/.test(code);
    expect(refusal.status >= 500).toBe(isOurs);
  });
});

test('a refusal can say more than its row, and any text stays JSON', () => {
  const message = 'quotes " and \\ and \u2028 and \n';
  const refusal = new ApiError('invalid_value', {
    message,
    param: 'stream_options.include_usage',
    status: 422,
    retryAfterS: 7,
  });
  expect(JSON.parse(refusal.body(REQUEST))).toMatchObject({
    error: { message, param: 'stream_options.include_usage', code: 'invalid_value' },
  });
  expect(refusal.status).toBe(422);
  expect(headersOf(refusal)).toMatchObject({ 'retry-after': '7' });
});

test("a hint that is not known leaves the row's own", () => {
  expect(headersOf(new ApiError('upstream_rate_limited', { retryAfterS: undefined }))).toMatchObject({
    'retry-after': '5',
  });
});

test('an error within a stream is the same object', () => {
  const refusal = new ApiError('upstream_disconnected');
  expect(JSON.parse(`{"error":${refusal.errorJson()}}`)).toEqual({
    error: (JSON.parse(refusal.body(REQUEST)) as { error: object }).error,
  });
  expect(refusal.errorJson()).not.toContain('\n');
});
