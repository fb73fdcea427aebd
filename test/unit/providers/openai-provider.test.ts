import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { RELAYED_ROUTES, type RelayedRoute } from '#db/limits/limits.ts';
import { BaseUrl, type Dialect, DIALECTS } from '#db/events/upstream-events.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { credentialHeader, DIALECT_TRAITS } from '#server/providers/openai/dialects.ts';
import { parseError } from '#server/providers/openai/errors.ts';
import { createOpenai } from '#server/providers/openai/openai.ts';
import type { ProviderCall, ProviderRequest } from '#server/providers/provider.ts';
import { NOTHING_TO_REDACT } from '#server/wire/redactor.ts';
import { NO_PARTS } from '#server/wire/prompt-parts.ts';
import { scanObject } from '#server/wire/json.ts';
import { checkBaseUrl } from '#server/upstreams/addresses.ts';
import { requestText } from '../../support/providers/request-text.ts';

function callOf(
  route: RelayedRoute,
  value: Record<string, unknown>,
  more: Partial<ProviderCall> = {},
): ProviderCall {
  const bytes = Buffer.from(JSON.stringify(value));
  const scanned = scanObject(bytes, ['model', 'stream_options', 'max_tokens', 'max_completion_tokens']);
  const asked = {
    model: String(value['model']),
    sse: value['stream'] === true,
    includeUsage: 'stream_options' in value,
    completionLimit: null,
    choices: 1,
    scanned: { ...scanned, parts: NO_PARTS },
  };
  return {
    route,
    body: { bytes, slab: null },
    parsed: asked,
    model: asked.model,
    tokenLimit: null,
    tokenLimitMember: 'max_completion_tokens',
    redactor: NOTHING_TO_REDACT,
    ...more,
  };
}

function sent(dialect: Dialect, call: ProviderCall): ProviderRequest & { value: unknown } {
  const request = createOpenai(dialect).request(call);
  if (request instanceof ApiError) throw new Error(request.message);
  return { ...request, value: JSON.parse(requestText(request)) };
}

describe('a request', () => {
  test('goes to its own path, with the name that the upstream knows the model by', () => {
    const paths = {
      '/v1/chat/completions': '/chat/completions',
      '/v1/completions': '/completions',
      '/v1/embeddings': '/embeddings',
    } as const;
    for (const [route, path] of Object.entries(paths)) {
      const { value, ...request } = sent(
        'other',
        callOf(route as RelayedRoute, { model: 'm', extra: [1] }, { model: 'theirs' }),
      );
      expect(request).toMatchObject({ path, headers: [], unsupported: [] });
      expect(value).toEqual({ model: 'theirs', extra: [1] });
    }
  });

  test('is the bytes that came in where nothing has to change', () => {
    const call = callOf('/v1/chat/completions', { model: 'm', messages: [] });
    for (const dialect of DIALECTS)
      expect((createOpenai(dialect).request(call) as ProviderRequest).body).toBe(call.body.bytes);
  });

  test('requests usage of a stream where the client did not, except from providers that refuse it', () => {
    for (const dialect of DIALECTS) {
      const { value } = sent(dialect, callOf('/v1/chat/completions', { model: 'm', stream: true }));
      expect(value, dialect).toEqual({
        model: 'm',
        stream: true,
        ...(dialect !== 'mistral' && { stream_options: { include_usage: true } }),
      });
    }
  });

  test('loses stream options where they are refused, and says so', () => {
    const call = callOf('/v1/chat/completions', {
      model: 'm',
      stream: true,
      stream_options: { include_usage: true },
    });
    expect(sent('mistral', call)).toMatchObject({
      value: { stream_options: null },
      unsupported: ['stream_options'],
    });
    expect(sent('openai', call)).toMatchObject({
      value: { stream_options: { include_usage: true } },
      unsupported: [],
    });
  });

  test('is limited by the member that its route knows', () => {
    const limited = (route: RelayedRoute): unknown =>
      sent('openai', callOf(route, { model: 'm' }, { tokenLimit: 9 })).value;
    expect(limited('/v1/chat/completions')).toEqual({ model: 'm', max_completion_tokens: 9 });
    expect(limited('/v1/completions')).toEqual({ model: 'm', max_tokens: 9 });
    expect(limited('/v1/embeddings')).toEqual({ model: 'm' });
  });

  test('of /v1/messages is another protocol', () => {
    expect(createOpenai('openai').request(callOf('/v1/messages', { model: 'm' }))).toBeInstanceOf(ApiError);
  });

  test('for a response goes to its own path, and asks for no usage', () => {
    const { value, path } = sent(
      'openai',
      callOf(
        '/v1/responses',
        { model: 'm', stream: true },
        {
          parsed: { ...callOf('/v1/responses', { model: 'm' }).parsed, sse: true, includeUsage: true },
          tokenLimit: 9,
        },
      ),
    );
    expect([path, value]).toEqual(['/responses', { model: 'm', stream: true, max_output_tokens: 9 }]);
  });
});

describe('a dialect', () => {
  test.each(DIALECTS)(
    '%s has a place that may be configured, if any, and routes that are relayed, chat among them',
    (dialect) => {
      const { baseUrl, routes } = DIALECT_TRAITS[dialect];
      if (baseUrl !== null) {
        expect(BaseUrl.parse(baseUrl)).toBe(baseUrl);
        expect(baseUrl).toMatch(/^https:/);
        expect(checkBaseUrl(baseUrl, 'public')).toBeNull();
      }
      expect(RELAYED_ROUTES).toEqual(expect.arrayContaining([...routes]));
      expect(routes).toContain('/v1/chat/completions');
    },
  );

  test('gives a credential in its own header, and none where there is absent', () => {
    expect(credentialHeader('openai', 'sk-1')).toEqual(['authorization', 'Bearer sk-1']);
    expect(credentialHeader('azure', 'k1')).toEqual(['api-key', 'k1']);
    for (const dialect of DIALECTS) expect(credentialHeader(dialect, '')).toEqual([]);
  });
});

describe('an error', () => {
  test('of whatever shape is read without harm, and never as an empty text', () => {
    const names = fc.constantFrom(
      'error',
      'message',
      'detail',
      'errors',
      'msg',
      'loc',
      'param',
      'metadata',
      'raw',
      'object',
    );
    const { shape } = fc.letrec((tie) => ({
      shape: fc.oneof(
        { maxDepth: 8 },
        fc.string(),
        fc.jsonValue(),
        fc.array(tie('shape'), { maxLength: 3 }),
        fc.dictionary(names, tie('shape'), { maxKeys: 4 }),
        tie('shape').map((value) => JSON.stringify(value) ?? ''),
      ),
    }));
    fc.assert(
      fc.property(
        fc.oneof(
          shape.map((value) => Buffer.from(JSON.stringify(value) ?? '')),
          fc.uint8Array().map((bytes) => Buffer.from(bytes)),
        ),
        (body) => {
          const fault = parseError(body);
          if (fault === null) return;
          expect(fault.message.trim()).not.toBe('');
          expect(fault.param).not.toBe('');
        },
      ),
      { numRuns: 2_000 },
    );
  });

  test.each([
    ['{"error":{"message":"no","param":"model"}}', { message: 'no', param: 'model' }],
    ['{"error":["one","two"]}', { message: 'one', param: null }],
    ['{"errors":[{"code":7003,"message":"no route"}],"success":false}', { message: 'no route', param: null }],
    [
      '{"detail":[{"loc":["query","x"],"msg":"odd"},{"loc":["body"],"msg":"all"}]}',
      { message: 'query.x: odd; all', param: 'query.x' },
    ],
    ['upstream request timeout', { message: 'upstream request timeout', param: null }],
    ['{"error":{}}', null],
    ['{"error":null,"ok":true}', null],
    ['{"error":{"message":""}}', null],
    ['{}', null],
    ['[]', null],
    ['null', null],
    ['7', null],
    ['', null],
    ['{"error":', null],
    ['<!doctype html><p>no', null],
    ['Traceback (most recent call last):\n  File "x.py"', null],
    ['x'.repeat(501), null],
    ['[[[[[[[[[["too deep"]]]]]]]]]]', null],
  ])('%s is read as %j', (text, expected) => expect(parseError(Buffer.from(text))).toEqual(expected));
});
