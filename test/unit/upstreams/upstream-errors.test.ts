import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ErrorCode } from '#server/errors/api-error.ts';
import type { ProviderCall } from '#server/providers/provider.ts';
import { createOpenai } from '#server/providers/openai/openai.ts';
import { parseError } from '#server/providers/openai/errors.ts';
import { Redactor } from '#server/wire/redactor.ts';
import { apiErrorOfReply, readErrorReply, type UpstreamErrorReply } from '#server/relay/upstream-errors.ts';

const HOST = 'models.internal.example:8443';
const REDACTOR = new Redactor(['f81d4fae-7dec-11d0-a765-00a0c91e6bf6'], ['models.internal.example']);

function reported(
  reply: Partial<UpstreamErrorReply> & { status: number; body?: Buffer },
): ReturnType<typeof apiErrorOfReply> {
  const { body = Buffer.alloc(0), ...rest } = reply;
  return apiErrorOfReply({ fault: parseError(body), retryAfter: undefined, redactor: REDACTOR, ...rest });
}

test('usage in the body of an error is read', () => {
  const size = { promptEstimate: 5, requestBytes: 100, outputLimit: null, choices: 1 };
  const call = { route: '/v1/chat/completions', redactor: REDACTOR, parsed: {} } as ProviderCall;
  const read = (body: object): ReturnType<typeof readErrorReply> =>
    readErrorReply({ status: 500, retryAfter: '3' }, Buffer.from(JSON.stringify(body)), {
      provider: createOpenai('other'),
      call,
      size,
    });
  const error = { message: 'The model crashed.' };
  expect(read({ error }).usage).toBeNull();
  expect(read({ error, usage: null }).usage).toBeNull();
  expect(read({ error, usage: { prompt_tokens: 12, completion_tokens: 3, total_tokens: 15 } })).toMatchObject(
    {
      failure: { cause: 500, retryAfterMs: 3_000 },
      usage: { usage: { input: 12, output: 3 }, source: 'provider' },
    },
  );
});

test('an unknown reference is one only of a request that refers to stored content', () => {
  const causeOf = (status: number, param: string | null, storage?: 'kept' | 'refers'): unknown => {
    const body = Buffer.from(JSON.stringify({ error: { message: 'Not found.', param } }));
    const call = { route: '/v1/chat/completions', redactor: REDACTOR, parsed: { storage } } as ProviderCall;
    const size = { promptEstimate: 5, requestBytes: 100, outputLimit: null, choices: 1 };
    const attempt = { provider: createOpenai('other'), call, size };
    return readErrorReply({ status, retryAfter: undefined }, body, attempt).failure.cause;
  };
  expect(causeOf(404, null, 'refers')).toBe('reference_not_found');
  expect(causeOf(400, 'previous_response_id', 'refers')).toBe('reference_not_found');
  expect(causeOf(400, 'temperature', 'refers')).toBe(400);
  expect(causeOf(400, 'previous_response_id', 'kept')).toBe(400);
  expect(causeOf(404, null)).toBe(404);
});

const errorBody = (message: string, more: object = {}): Buffer =>
  Buffer.from(JSON.stringify({ error: { message, ...more } }));

test.each<[number, number, ErrorCode, string]>([
  [400, 400, 'upstream_rejected', 'upstream_rejected'],
  [404, 404, 'model_not_found', 'upstream_rejected'],
  [413, 413, 'request_too_large', 'upstream_rejected'],
  [415, 415, 'upstream_rejected', 'upstream_rejected'],
  [422, 422, 'upstream_rejected', 'upstream_rejected'],
  [401, 502, 'upstream_unauthorized', 'upstream_error'],
  [403, 502, 'upstream_unauthorized', 'upstream_error'],
  [429, 503, 'upstream_rate_limited', 'upstream_error'],
  [503, 503, 'upstream_error', 'upstream_error'],
  [408, 504, 'upstream_timeout', 'timed_out'],
  [504, 504, 'upstream_timeout', 'timed_out'],
  [500, 502, 'upstream_error', 'upstream_error'],
  [502, 502, 'upstream_error', 'upstream_error'],
  [409, 502, 'upstream_error', 'upstream_error'],
  [302, 502, 'upstream_error', 'upstream_error'],
  [999, 502, 'upstream_error', 'upstream_error'],
])("an upstream's %i is told as %i %s", (status, expected, code, reason) => {
  expect(reported({ status, body: errorBody('Something is wrong.') })).toMatchObject({
    refusal: { status: expected, code },
    reason,
  });
});

test('no status of an upstream becomes a 401, 403 or 429 of ours, or a success', () => {
  fc.assert(
    fc.property(fc.integer({ min: 300, max: 999 }), (status) => {
      const { refusal } = reported({ status, body: errorBody('no') });
      expect([401, 403, 429]).not.toContain(refusal.status);
      expect(refusal.status).toBeGreaterThanOrEqual(400);
      // Every fault that is not the client's is a 5xx.
      if (![400, 404, 413, 415, 422].includes(status)) expect(refusal.status).toBeGreaterThanOrEqual(500);
    }),
  );
});

describe('the message', () => {
  const messageOf = (body: Buffer, status = 400): string => reported({ status, body }).refusal.message;

  test("about the client's own request passes with its field", () => {
    const { refusal } = reported({
      status: 400,
      body: errorBody('max_tokens is too large: 9.', { param: 'max_tokens', code: 'x', type: 'y' }),
    });
    expect(JSON.parse(refusal.errorJson())).toEqual({
      message: 'max_tokens is too large: 9.',
      type: 'invalid_request_error',
      param: 'max_tokens',
      code: 'upstream_rejected',
    });
  });

  test('about anything else is our own', () => {
    for (const status of [401, 403, 429, 500, 503, 504])
      expect(messageOf(errorBody('Their words.'), status)).not.toContain('Their');
  });

  test.each([
    ['HTML', '<html><body>nginx at models.internal.example</body></html>'],
    ['nothing', ''],
    ['half a document', '{"error":{"message":"Some'],
    ['an empty message', '{"error":{"message":""}}'],
    ['a message that is no text', '{"error":{"message":{"deep":1}}}'],
    ['null', 'null'],
    ['an array', '[1]'],
    ['bytes that are not UTF-8', '\u0000\ud800'],
  ])('is our own when the upstream sent %s', (_, body) => {
    expect(messageOf(Buffer.from(body))).toBe('The model provider refused the request with status 400.');
  });

  test.each([
    'Incorrect API key provided: sk-proj-abcdefgh12345678.',
    'The key sk-ant-api03-AbCd_1234-xyz is not valid',
    'Header was Bearer eyJhbGciOi.J9.abc',
    'gsk_1234567890abcdef1234567890 has no access',
    'masked sk-abcd************wxyz',
    `see https://${HOST}/v1/docs?key=abcdef`,
    `connect to ${HOST} failed`,
    `no route at ${HOST.toUpperCase()}`,
    'the key f81d4fae-7dec-11d0-a765-00a0c91e6bf6 is wrong',
    'could not reach http://10.0.0.7:8000/v1',
    'upstream models.internal.example said no',
  ])('names no credential and no address: %s', (message) => {
    const shown = messageOf(errorBody(message));
    expect(shown).toMatch(/\[(credential|address)\]/);
    expect(shown).not.toMatch(/12345678|wxyz|eyJ|internal\.example|10\.0\.0\.7|abcdef|api03|f81d4fae/i);
  });

  test('names none wherever in any text they stand', () => {
    const secret = fc.string({
      unit: fc.constantFrom(...'abcdefXYZ0123456789'.split('')),
      minLength: 20,
      maxLength: 40,
    });
    const words = fc.string({ unit: fc.constantFrom('a', ' ', '.', ',', '"', '(', '\n'), maxLength: 20 });
    fc.assert(
      fc.property(
        secret,
        words,
        words,
        fc.constantFrom('sk-', 'Bearer ', 'key_', `https://${HOST}/`),
        (text, before, after, prefix) => {
          const message = messageOf(errorBody(`${before} ${prefix}${text} ${after}`));
          expect(message).not.toContain(text);
        },
      ),
    );
  });

  test('is bounded', () => {
    expect(messageOf(errorBody('long '.repeat(10_000))).length).toBeLessThanOrEqual(1_000);
    const { refusal } = reported({ status: 400, body: errorBody('x', { param: 'p'.repeat(10_000) }) });
    expect(refusal.param?.length).toBeLessThanOrEqual(200);
  });
});

describe('when to try again', () => {
  const retryOf = (status: number, retryAfter: string | undefined): number | undefined =>
    reported({ status, retryAfter }).refusal.retryAfterS;

  test.each([429, 503, 500, 504])("is the upstream's own word on a %i, within reason", (status) => {
    expect(retryOf(status, '7')).toBe(7);
    expect(retryOf(status, '0')).toBe(1);
    expect(retryOf(status, '86400')).toBe(60);
  });

  test.each(['', 'soon', '-5', '1.5', '7, 8', '99999999999999999999', 'Wed, 21 Oct 2026 07:28:00 GMT'])(
    'is ours when theirs is no number: %j',
    (header) => {
      expect(retryOf(429, header)).toBe(retryOf(429, undefined));
      expect(retryOf(429, undefined)).toBeGreaterThanOrEqual(1);
    },
  );
});
