import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { JSON_DEPTH_MAX } from '#server/wire/bounds.ts';
import { type ErrorCode, ApiError } from '#server/errors/api-error.ts';
import { type ParsedRequest, parseChatCompletion } from '#server/wire/request-parser.ts';

const MESSAGES = [{ role: 'user', content: 'hello' }];

function parse(body: unknown): ParsedRequest | ApiError {
  return parseChatCompletion(Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)));
}

function accepted(body: unknown): ParsedRequest {
  const chat = parse(body);
  if (chat instanceof ApiError) throw new Error(`refused: ${chat.message}`);
  return chat;
}

describe('a body is refused with its code and the field at fault', () => {
  test.each<[string, unknown, ErrorCode, string | null]>([
    ['nothing', '', 'invalid_json', null],
    ['half a document', '{"model":"m"', 'invalid_json', null],
    ['an array', '[]', 'invalid_json', null],
    ['a text', '"hello"', 'invalid_json', null],
    ['null', 'null', 'invalid_json', null],
    [
      'nesting beyond the bound',
      `{"model":"m","messages":${'['.repeat(JSON_DEPTH_MAX)}${']'.repeat(JSON_DEPTH_MAX)}}`,
      'nested_too_deeply',
      null,
    ],
    ['no model', { messages: MESSAGES }, 'missing_required_parameter', 'model'],
    ['a model that is null', { model: null, messages: MESSAGES }, 'invalid_value', 'model'],
    ['a model that is a number', { model: 4, messages: MESSAGES }, 'invalid_value', 'model'],
    ['a model without a name', { model: '', messages: MESSAGES }, 'invalid_value', 'model'],
    ['a list of models', { model: ['m'], messages: MESSAGES }, 'invalid_value', 'model'],
    ['no messages', { model: 'm' }, 'missing_required_parameter', 'messages'],
    [
      'input in the place of messages',
      { model: 'm', input: MESSAGES },
      'missing_required_parameter',
      'messages',
    ],
    ['messages that are an object', { model: 'm', messages: {} }, 'invalid_value', 'messages'],
    ['messages that are null', { model: 'm', messages: null }, 'invalid_value', 'messages'],
    ['messages that are a text', { model: 'm', messages: 'hello' }, 'invalid_value', 'messages'],
    ['stream in words', { model: 'm', messages: MESSAGES, stream: 'true' }, 'invalid_value', 'stream'],
    ['stream as a number', { model: 'm', messages: MESSAGES, stream: 1 }, 'invalid_value', 'stream'],
    [
      'stream options in words',
      { model: 'm', messages: MESSAGES, stream_options: 'usage' },
      'invalid_value',
      'stream_options',
    ],
    [
      'stream options in a list',
      { model: 'm', messages: MESSAGES, stream_options: [] },
      'invalid_value',
      'stream_options',
    ],
    [
      'include_usage in words',
      { model: 'm', messages: MESSAGES, stream_options: { include_usage: 'yes' } },
      'invalid_value',
      'stream_options.include_usage',
    ],
    ['a limit in words', { model: 'm', messages: MESSAGES, max_tokens: '5' }, 'invalid_value', 'max_tokens'],
    ['half a token', { model: 'm', messages: MESSAGES, max_tokens: 0.5 }, 'invalid_value', 'max_tokens'],
    [
      'a negative limit',
      { model: 'm', messages: MESSAGES, max_completion_tokens: -1 },
      'invalid_value',
      'max_completion_tokens',
    ],
    [
      'a limit that no integer holds',
      '{"model":"m","messages":[],"max_tokens":1e400}',
      'invalid_value',
      'max_tokens',
    ],
    ['the model twice', '{"model":"cheap","messages":[],"model":"dear"}', 'duplicate_parameter', 'model'],
    [
      'the model twice, once in escapes',
      '{"model":"cheap","messages":[],"m\\u006fdel":"dear"}',
      'duplicate_parameter',
      'model',
    ],
    [
      'stream twice',
      '{"model":"m","messages":[],"stream":false,"stream":true}',
      'duplicate_parameter',
      'stream',
    ],
    [
      'a model in another script',
      { model: '\u043c\u043e\u0434\u0435\u043b\u044c', messages: MESSAGES },
      'model_not_found',
      'model',
    ],
    ['a model with a line end', { model: 'm\n', messages: MESSAGES }, 'model_not_found', 'model'],
    ['a model with a lone surrogate', '{"model":"\\ud800","messages":[]}', 'model_not_found', 'model'],
    [
      'a model of a thousand characters',
      { model: 'm'.repeat(1_000), messages: MESSAGES },
      'model_not_found',
      'model',
    ],
  ])('%s', (_, body, code, param) => {
    expect(parse(body)).toMatchObject({ code, param });
  });

  test('and never repeats what the prompt says', () => {
    const prompt = 'canary-in-the-prompt';
    for (const body of [
      `{"model":"m","messages":["${prompt}"`,
      `{"messages":["${prompt}"]}`,
      `{"model":{"${prompt}":1},"messages":["${prompt}"]}`,
    ]) {
      expect((parse(body) as ApiError).message).not.toContain(prompt);
    }
  });
});

describe('shapes that real clients send are accepted as they are', () => {
  test.each<[string, unknown[]]>([
    ['text', MESSAGES],
    [
      'parts',
      [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'a' },
            { type: 'image_url', image_url: { url: 'data:image/png;base64,AA' } },
          ],
        },
      ],
    ],
    [
      'a tool call without content',
      [
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
        },
      ],
    ],
    ['a tool call with empty content', [{ role: 'assistant', content: '', tool_calls: [] }]],
    ['a tool result in parts', [{ role: 'tool', tool_call_id: 'c', content: [{ type: 'text', text: 'r' }] }]],
    ['a system role in the middle', [...MESSAGES, { role: 'system', content: 's' }, ...MESSAGES]],
    ['several user messages in a row', [...MESSAGES, ...MESSAGES]],
    ['the developer role', [{ role: 'developer', content: 'd' }]],
    [
      "an assistant's reasoning",
      [{ role: 'assistant', content: 'a', reasoning_content: 'r', reasoning_details: [{}] }],
    ],
    [
      'roles and members of the future',
      [{ role: 'oracle', parts: [{ cache_control: { type: 'ephemeral' } }] }],
    ],
    ['none at all', []],
  ])('messages: %s', (_, messages) => {
    expect(
      accepted({
        model: 'm',
        messages,
        tools: [{ type: 'custom' }],
        tool_choice: 'auto',
        store: false,
        unknown: { deep: [1] },
      }).model,
    ).toBe('m');
  });

  test('null stands for a field that is not there', () => {
    const chat = accepted({
      model: 'm',
      messages: [],
      stream: null,
      stream_options: null,
      max_tokens: null,
      max_completion_tokens: null,
    });
    expect(chat).toMatchObject({ sse: false, includeUsage: false, completionLimit: null });
    expect(
      accepted({ model: 'm', messages: [], stream: true, stream_options: { include_usage: null } })
        .includeUsage,
    ).toBe(false);
  });

  test('whether usage was asked for is what stream_options say', () => {
    const asks = (stream_options: object): boolean =>
      accepted({ model: 'm', messages: [], stream: true, stream_options }).includeUsage;
    expect(asks({ include_usage: true })).toBe(true);
    expect(asks({ include_usage: false })).toBe(false);
    expect(asks({ include_obfuscation: false })).toBe(false);
  });

  test('the newer name of the completion limit goes before the older one', () => {
    const limitOf = (limits: object): number | null =>
      accepted({ model: 'm', messages: [], ...limits }).completionLimit;
    expect(limitOf({ max_tokens: 7 })).toBe(7);
    expect(limitOf({ max_completion_tokens: 5 })).toBe(5);
    expect(limitOf({ max_tokens: 7, max_completion_tokens: 5 })).toBe(5);
    expect(limitOf({ max_tokens: 7, max_completion_tokens: null })).toBe(7);
    expect(limitOf({ max_tokens: 0 })).toBe(0);
  });

  test("a model's name is read through escapes and may hold any printable ASCII", () => {
    const name = fc.string({
      unit: fc.integer({ min: 0x20, max: 0x7e }).map((unit) => String.fromCharCode(unit)),
      minLength: 1,
      maxLength: 256,
    });
    fc.assert(
      fc.property(name, fc.boolean(), (model, isEscaped) => {
        const plain = JSON.stringify(model);
        const escaped = `"${model
          .split('')
          .map((each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`)
          .join('')}"`;
        expect(accepted(`{"messages":[],"model":${isEscaped ? escaped : plain}}`).model).toBe(model);
      }),
    );
  });
});

test('any JSON at all is either understood or refused with a 400 or 404, never thrown at', () => {
  const body = fc.record(
    {
      model: fc.oneof(fc.constant('m'), fc.jsonValue()),
      messages: fc.oneof(fc.constant([]), fc.jsonValue()),
      stream: fc.oneof(fc.boolean(), fc.jsonValue()),
      stream_options: fc.oneof(fc.record({ include_usage: fc.boolean() }), fc.jsonValue()),
      max_tokens: fc.oneof(fc.nat(), fc.jsonValue()),
    },
    { requiredKeys: [] },
  );
  let understood = 0;
  fc.assert(
    fc.property(body, (value) => {
      const chat = parse(value);
      if (chat instanceof ApiError) {
        expect([400, 404]).toContain(chat.status);
        return;
      }
      understood++;
      expect(chat).toMatchObject({ model: value.model, sse: value.stream === true });
    }),
    { numRuns: 2_000 },
  );
  expect(understood).toBeGreaterThan(20);
});
