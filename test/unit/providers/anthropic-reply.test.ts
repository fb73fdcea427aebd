import { readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { ApiError } from '#server/errors/api-error.ts';
import { messagesErrorBody, messagesErrorEvent } from '#server/providers/anthropic/errors.ts';
import { anthropic } from '#server/providers/anthropic/provider.ts';
import { readReply } from '#server/providers/anthropic/reply.ts';
import { callOf, CREATED, fixture, FOLDER } from '../../support/providers/anthropic-calls.ts';

type Choice = { message: Record<string, unknown>; finish_reason: string };
type Told = {
  usage: object | null;
  outputBytes: () => number;
  failed: boolean;
  json: { choices: [Choice] } & Record<string, unknown>;
};

function read(bytes: Buffer): Told | null {
  const reply = readReply(bytes, CREATED);
  return reply && { ...reply, json: JSON.parse(reply.bytes.toString()) as Told['json'] };
}

const plain = { role: 'assistant', refusal: null };

describe('a whole message', () => {
  test('of words is a chat completion with all that the convention wants', () => {
    expect(read(fixture('text.json'))).toMatchObject({
      failed: false,
      usage: { input: 14, cached: 0, output: 9, reasoning: 0 },
      json: {
        id: 'msg_01Tide',
        object: 'chat.completion',
        created: CREATED,
        model: 'claude-sonnet-5',
        choices: [
          {
            index: 0,
            message: { ...plain, content: 'The tide turns at noon \u2014 high water.' },
            logprobs: null,
            finish_reason: 'stop',
          },
        ],
        usage: {
          prompt_tokens: 14,
          completion_tokens: 9,
          total_tokens: 23,
          prompt_tokens_details: { cached_tokens: 0 },
        },
      },
    });
  });

  test('with tool calls keeps their arguments as they stand', () => {
    expect(read(fixture('tool-call.json'))?.json.choices[0]).toEqual({
      index: 0,
      logprobs: null,
      finish_reason: 'tool_calls',
      message: {
        ...plain,
        content: "I'll look.",
        tool_calls: [
          {
            id: 'toolu_01A',
            type: 'function',
            function: {
              name: 'tide_at',
              arguments: '{"harbour": "Leith", "id": 12345678901234567890, "10":1, "2":-0}',
            },
          },
          { id: 'toolu_01B', type: 'function', function: { name: 'now', arguments: '{}' } },
        ],
      },
    });
  });

  test('with thoughts tells them, and how to send them back', () => {
    const format = 'anthropic-claude-v1';
    expect(read(fixture('thinking.json'))).toMatchObject({
      usage: { input: 12, cached: 0, output: 30, reasoning: 22 },
      json: {
        choices: [
          {
            message: {
              content: 'At noon.',
              reasoning_content: 'Noon is high water.',
              reasoning_details: [
                {
                  type: 'reasoning.text',
                  text: 'Noon is high water.',
                  signature: 'EqQBCgIYAhIM+/=',
                  format,
                  index: 0,
                },
                { type: 'reasoning.encrypted', data: 'EmwKAhgB', format, index: 1 },
              ],
            },
          },
        ],
      },
    });
  });

  test('counts everything that was read from a cache, and written to it, within the prompt', () => {
    expect(read(fixture('cached-usage.json'))).toMatchObject({
      usage: { input: 2121, cached: 1800, output: 6 },
      json: {
        usage: {
          prompt_tokens: 2121,
          completion_tokens: 6,
          total_tokens: 2127,
          prompt_tokens_details: { cached_tokens: 1800, cache_write_tokens: 300 },
        },
      },
    });
  });

  test('that refuses says why', () => {
    expect(read(fixture('refusal.json'))?.json.choices[0]).toMatchObject({
      message: { content: '', refusal: "This can't be answered." },
      finish_reason: 'content_filter',
    });
  });

  test('without usage reports its size', () => {
    const { usage, outputBytes } = read(fixture('text-without-usage.json')) as Told;
    expect({ usage, bytes: outputBytes() }).toEqual({
      usage: null,
      bytes: '[{"type":"text","text":"The tide turns at noon."}]'.length,
    });
  });
});

test.each(['broken-truncated.json', 'broken-other-object.json', 'error-text.json'])(
  '%s is absent that a client could read',
  (file) => {
    expect(read(fixture(file))).toBeNull();
  },
);

test("an error under a status of success is one for the client, in the relay's words", () => {
  const reply = readReply(fixture('error-as-success.json'), CREATED);
  expect(reply).toMatchObject({ failed: true, usage: null });
  expect(reply?.bytes.toString()).toMatch(/^\{"error":\{.*"code":"upstream_rate_limited"\}\}$/);
  expect(reply?.bytes.toString()).not.toContain('inner.example');
});

test.each([
  ['error-400.json', 'messages.1.content: Input should be a valid list'],
  ['error-401.json', 'invalid x-api-key'],
  [
    'error-429.json',
    'This request would exceed your organization\u2019s rate limit of 50 requests per minute.',
  ],
  ['error-529.json', 'Overloaded'],
])(
  '%s says what its provider says, and names no field: the one it means is in the translation',
  (file, message) => {
    expect(anthropic.parseError(fixture(file))).toEqual({ message, param: null });
  },
);

test.each([
  ['error-text.json', fixture('error-text.json')],
  ['an error without words', Buffer.from('{"error":{}}')],
  ['nothing', Buffer.alloc(0)],
])('%s says nothing that can be read', (_, body) => {
  expect(anthropic.parseError(body)).toBeNull();
});

test("the time of a completion is the provider's own clock's, in seconds", () => {
  const before = Math.floor(Date.now() / 1_000);
  const { created } = JSON.parse(
    anthropic.json(fixture('text.json'), callOf({}))?.bytes.toString() ?? '',
  ) as { created: number };
  expect(created).toBeGreaterThanOrEqual(before);
  expect(created).toBeLessThanOrEqual(Date.now() / 1_000);
});

test('no fixture of a whole body is without a test', () => {
  const known = [
    'text',
    'tool-call',
    'thinking',
    'cached-usage',
    'refusal',
    'text-without-usage',
    'broken-truncated',
    'broken-other-object',
    'error-as-success',
    'error-400',
    'error-401',
    'error-429',
    'error-529',
    'error-text',
  ];
  expect(
    readdirSync(FOLDER)
      .filter((file) => file.endsWith('.json'))
      .toSorted(),
  ).toEqual(known.map((name) => `${name}.json`).toSorted());
});

test("a refusal of the relay's own reaches clients of the messages in the words they know", () => {
  const refusal = new ApiError('rate_limit_exceeded', { message: 'Too many "requests".' });
  expect(JSON.parse(messagesErrorBody(refusal, 'r1'))).toEqual({
    type: 'error',
    error: { type: 'rate_limit_error', message: 'Too many "requests".', code: 'rate_limit_exceeded' },
    request_id: 'r1',
  });
  expect(messagesErrorEvent(new ApiError('upstream_disconnected'), 'r1')).toMatch(
    /^event: error\ndata: \{"type":"error","error":\{"type":"api_error",[^\n]*\}\n\n$/,
  );
});
