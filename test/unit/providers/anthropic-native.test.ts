import { readdirSync } from 'node:fs';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SSE_EVENT_BYTES_MAX } from '#server/wire/bounds.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { NativeSse } from '#server/providers/anthropic/native-sse.ts';
import { anthropic } from '#server/providers/anthropic/provider.ts';
import type { ProviderCall } from '#server/providers/provider.ts';
import { callOf, fixture, FOLDER, runThrough } from '../../support/providers/anthropic-calls.ts';
import { requestText } from '../../support/providers/request-text.ts';
import { chunksOf } from '../../support/wire/arbitrary-sse.ts';

const ROUTE = { route: '/v1/messages' } as const;
const STREAMS = readdirSync(FOLDER).filter((file) => file.endsWith('.sse'));
const HALF_AT_END = new Set(['broken-cut-in-event.sse', 'broken-cut-in-character.sse']);

function requestOf(body: string, more: Partial<ProviderCall>): { body: string; headers: readonly string[] } {
  const request = anthropic.request(callOf(body, { ...ROUTE, ...more }));
  if (request instanceof ApiError) throw new Error(request.message);
  expect(request).toMatchObject({ path: '/v1/messages', unsupported: [] });
  return { body: requestText(request), headers: request.headers };
}

describe('a request of the messages', () => {
  const body = '{ "max_tokens" : 9, "model": "tide", "messages":[], "seed":12345678901234567890 } ';

  test('goes out as the very bytes that came, where nothing has to change', () => {
    const call = callOf(body, { ...ROUTE, model: 'tide' });
    expect(anthropic.request(call)).toMatchObject({ body: call.body.bytes });
  });

  test("is changed in the model's name and a quota's limit alone", () => {
    expect(requestOf(body, { model: 'claude-"5"' }).body).toBe(body.replace('"tide"', '"claude-\\"5\\""'));
    expect(requestOf(body, { model: 'tide', tokenLimit: 4 }).body).toBe(body.replace('9', '4'));
  });

  test("bears the client's version and features, or else the version that all know", () => {
    expect(requestOf(body, {}).headers).toEqual(['anthropic-version', '2023-06-01']);
    const beta = ['anthropic-beta', 'context-management-2025-06-27'];
    expect(requestOf(body, { protocolHeaders: beta }).headers).toEqual([
      'anthropic-version',
      '2023-06-01',
      ...beta,
    ]);
    expect(requestOf(body, { protocolHeaders: ['anthropic-version', '2027-01-01'] }).headers).toEqual([
      'anthropic-version',
      '2027-01-01',
    ]);
  });
});

test('members are set in their places or at the end, and all else stays', () => {
  const any = fc.dictionary(fc.stringMatching(/^x[a-z]{0,2}$/), fc.jsonValue(), { maxKeys: 5 });
  const model = fc.stringMatching(/^[ -~]{1,9}$/);
  const own = fc.record(
    { model, messages: fc.constant([]), max_tokens: fc.nat() },
    { requiredKeys: ['model', 'messages'], noNullPrototype: true },
  );
  fc.assert(
    fc.property(
      any,
      own,
      fc.boolean(),
      model,
      fc.option(fc.nat()),
      fc.constantFrom(undefined, 2),
      (value, asked, isFirst, there, tokenLimit, indent) => {
        const text = JSON.stringify(isFirst ? { ...asked, ...value } : { ...value, ...asked }, null, indent);
        const changed = { model: there, ...(tokenLimit === null ? {} : { max_tokens: tokenLimit }) };
        expect(JSON.parse(requestOf(text, { model: there, tokenLimit }).body)).toEqual({
          ...(JSON.parse(text) as object),
          ...changed,
        });
      },
    ),
  );
});

describe('a streamed message', () => {
  test.each(STREAMS)(
    '%s: goes through byte for byte, except secrets in errors, in any pieces and in whole events',
    (file) => {
      const bytes = fixture(file);
      const end = HALF_AT_END.has(file) ? bytes.lastIndexOf('\n\n') + 2 : bytes.length;
      // An error names no credential and no address.
      const relayed = bytes
        .toString('latin1', 0, end)
        .replace('https://inner.example', '[address]')
        .replace('sk-ant-api03-abcdefgh', '[credential]');
      fc.assert(
        fc.property(fc.array(fc.nat(150), { minLength: 1, maxLength: 20 }), (sizes) => {
          const reader = new NativeSse();
          const output = runThrough(reader, chunksOf(bytes, sizes));
          expect(output.toString('latin1')).toBe(relayed);
          expect(reader.insideEvent).toBe(false);
        }),
        { numRuns: 30 },
      );
    },
  );

  const reported = (file: string): object => {
    const reader = new NativeSse();
    runThrough(reader, [fixture(file)]);
    const { usage, promptUsage, countedTokens, complete, failed } = reader;
    return { usage, promptUsage, countedTokens, complete, failed };
  };
  test.each([
    [
      'text.sse',
      {
        usage: { input: 14, cached: 0, output: 6, reasoning: 0 },
        promptUsage: { input: 14, cached: 0 },
        countedTokens: 6,
        complete: true,
        failed: false,
      },
    ],
    [
      'other-spelling.sse',
      {
        usage: { input: 14, cached: 0, output: 6, reasoning: 0 },
        promptUsage: null,
        complete: true,
        failed: false,
      },
    ],
    [
      'cached-usage.sse',
      {
        usage: { input: 2121, cached: 1800, output: 6, reasoning: 0 },
        promptUsage: { input: 2121, cached: 1800 },
        complete: true,
      },
    ],
    [
      'thinking.sse',
      { usage: { input: 12, cached: 0, output: 30, reasoning: 22 }, countedTokens: 3, complete: true },
    ],
    [
      'broken-cut-in-event.sse',
      {
        usage: null,
        promptUsage: { input: 14, cached: 0 },
        countedTokens: 2,
        complete: false,
        failed: false,
      },
    ],
    [
      'broken-no-stop.sse',
      { usage: { input: 14, cached: 0, output: 6, reasoning: 0 }, complete: false, failed: false },
    ],
    ['broken-error-event.sse', { usage: null, complete: false, failed: true }],
    ['broken-garbage.sse', { usage: null, countedTokens: 0, complete: false, failed: false }],
  ])('%s: tells what it cost and how it ended', (file, facts) => {
    expect(reported(file)).toMatchObject(facts);
  });

  test('with an event beyond the bound goes on in pieces, and says so', () => {
    const reader = new NativeSse();
    expect(reader.push(Buffer.alloc(SSE_EVENT_BYTES_MAX + 1, 'a'))).toHaveLength(SSE_EVENT_BYTES_MAX + 1);
    expect(reader.insideEvent).toBe(true);
    expect(reader.push(Buffer.from('b\n\n'))?.toString()).toBe('b\n\n');
    expect(reader.insideEvent).toBe(false);
  });
});

describe('a whole message', () => {
  const read = (name: string): ReturnType<typeof anthropic.json> =>
    anthropic.json(fixture(name), callOf({}, ROUTE));

  test('is its own bytes, with what it cost', () => {
    const reply = read('cached-usage.json');
    expect(reply?.bytes.equals(fixture('cached-usage.json'))).toBe(true);
    expect(reply).toMatchObject({
      usage: { input: 2121, cached: 1800, output: 6, reasoning: 0 },
      failed: false,
    });
  });

  test('that is an error, or none at all, is reported from one', () => {
    expect(read('error-as-success.json')).toMatchObject({ failed: true, usage: null });
    expect(read('broken-truncated.json')).toBeNull();
  });
});
