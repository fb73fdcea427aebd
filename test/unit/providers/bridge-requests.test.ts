import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Bridge, openBridge } from '#server/providers/bridge/bridge.ts';
import { callOptionsOf } from '#server/providers/bridge/call-options.ts';
import { bridged, bridgesTo } from '../../support/providers/bridged.ts';
import { type ScriptedProvider, startProvider } from '../../support/upstream/scripted-provider.ts';

const SECRET = 'credential-of-nobody';
const PIXEL = 'iVBORw0KGgo=';
let provider: ScriptedProvider;
let bridges: Record<string, Bridge>;

beforeAll(async () => {
  provider = await startProvider();
  bridges = bridgesTo(provider, SECRET);
});
afterAll(() => provider[Symbol.asyncDispose]());
beforeEach(() => {
  provider.asked.length = 0;
  provider.answers.length = 0;
});

async function ask(
  name: 'google' | 'cohere' | 'anthropic',
  request: object,
  tokenLimit: number | null = null,
): Promise<{
  body: Record<string, unknown>;
  path: string;
  unsupported: unknown;
  status: number | null;
  error: unknown;
}> {
  provider.answers.splice(0, Infinity, { fixture: `${name}-text.json` });
  const { headers, chat, status } = await bridged(bridges[name] as Bridge, request, tokenLimit);
  const sent = provider.asked.at(-1);
  const error = (chat.json as { error?: unknown } | undefined)?.error;
  return {
    body: sent?.body ?? {},
    path: sent?.path ?? '',
    unsupported: headers['x-daybook-unsupported'],
    status,
    error,
  };
}

const user = (content: unknown): object => ({ role: 'user', content });

test('a conversation with tools, a picture and settings goes out in the words of Gemini', async () => {
  const { body, path, unsupported } = await ask('google', {
    model: 'gemini-2.5-flash',
    messages: [
      {
        role: 'developer',
        content: [
          { type: 'text', text: 'Be ' },
          { type: 'text', text: 'brief.' },
        ],
      },
      user([
        { type: 'text', text: 'What is this?' },
        { type: 'text', text: '' },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${PIXEL}`, detail: 'low' } },
      ]),
      {
        role: 'assistant',
        content: 'A tide table.',
        tool_calls: [
          {
            id: 'a',
            type: 'function',
            function: { name: 'tide_at', arguments: '{"harbour":"Leith"}' },
            extra_content: { google: { thoughtSignature: 'c2ln' } },
          },
          { id: 'b', type: 'function', function: { name: 'now', arguments: '' } },
        ],
      },
      { role: 'tool', tool_call_id: 'a', content: 'noon' },
      { role: 'tool', tool_call_id: 'b', content: [{ type: 'text', text: 'morning' }] },
      user('And then?'),
    ],
    tools: [
      {
        type: 'function',
        function: {
          name: 'tide_at',
          description: 'Looks it up',
          parameters: { type: 'object', properties: { harbour: { type: 'string' } }, required: ['harbour'] },
        },
      },
    ],
    tool_choice: { type: 'function', function: { name: 'tide_at' } },
    max_tokens: 300,
    temperature: 0.2,
    top_p: 0.9,
    top_k: 40,
    stop: ['END'],
    seed: 7,
    n: 1,
    parallel_tool_calls: true,
    user: 'u-1',
    logprobs: true,
    provider_options: { google: { cachedContent: 'x' } },
  });
  expect(path).toBe('/models/gemini-2.5-flash:generateContent');
  expect(body).toMatchObject({
    systemInstruction: { parts: [{ text: 'Be brief.' }] },
    contents: [
      {
        role: 'user',
        parts: [{ text: 'What is this?' }, { inlineData: { mimeType: 'image/png', data: PIXEL } }],
      },
      {
        role: 'model',
        parts: [
          { text: 'A tide table.' },
          { functionCall: { name: 'tide_at', args: { harbour: 'Leith' } }, thoughtSignature: 'c2ln' },
          { functionCall: { name: 'now', args: {} } },
        ],
      },
      {
        role: 'user',
        parts: [
          { functionResponse: { name: 'tide_at', response: { content: 'noon' } } },
          { functionResponse: { name: 'now', response: { content: 'morning' } } },
        ],
      },
      { role: 'user', parts: [{ text: 'And then?' }] },
    ],
    generationConfig: {
      maxOutputTokens: 300,
      temperature: 0.2,
      topP: 0.9,
      topK: 40,
      stopSequences: ['END'],
      seed: 7,
    },
    toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['tide_at'] } },
  });
  expect(JSON.stringify(body)).not.toContain('cachedContent');
  expect(unsupported).toBe('user, logprobs, provider_options');
});

test('a schema for the reply goes along', async () => {
  const schema = {
    type: 'object',
    properties: { at: { type: 'string' } },
    required: ['at'],
    additionalProperties: false,
  };
  const format = {
    response_format: { type: 'json_schema', json_schema: { name: 'tide', strict: true, schema } },
  };
  expect(
    (await ask('google', { model: 'gemini-2.5-flash', ...format })).body['generationConfig'],
  ).toMatchObject({
    responseMimeType: 'application/json',
    responseJsonSchema: { properties: { at: { type: 'string' } } },
  });
  expect((await ask('cohere', format)).body).toMatchObject({
    response_format: { type: 'json_object', json_schema: schema },
  });
});

test('what the package drops is named, too, in the words of the convention', async () => {
  const { unsupported, body } = await ask('anthropic', {
    model: 'claude-sonnet-4-5',
    seed: 7,
    frequency_penalty: 0.5,
    logit_bias: { 50256: -100 },
    temperature: 0.5,
  });
  expect(String(unsupported).split(', ').toSorted()).toEqual(['frequency_penalty', 'logit_bias', 'seed']);
  expect(body).toMatchObject({ model: 'claude-sonnet-4-5', temperature: 0.5 });
  provider.answers.splice(0, Infinity, { fixture: 'anthropic-text.sse' });
  expect(
    (await bridged(bridges['anthropic'] as Bridge, { stream: true, seed: 7 })).headers[
      'x-daybook-unsupported'
    ],
  ).toBe('seed');
  expect((await ask('google', {})).unsupported).toBeUndefined();
});

test("a limit of the relay takes the place of the client's", async () => {
  expect((await ask('cohere', { max_completion_tokens: 500 })).body).toMatchObject({ max_tokens: 500 });
  expect((await ask('cohere', { max_completion_tokens: 500 }, 64)).body).toMatchObject({ max_tokens: 64 });
  expect((await ask('cohere', {})).body).not.toHaveProperty('max_tokens');
});

test('the credential and the options of the operator go with every call', async () => {
  await ask('google', {});
  expect(provider.asked[0]?.headers).toMatchObject({
    'x-goog-api-key': SECRET,
    'accept-encoding': 'identity',
  });
  provider.answers.splice(0, Infinity, { fixture: 'anthropic-text.json' });
  await bridged(
    openBridge({
      terms: { package: '@ai-sdk/anthropic', base_url: provider.url },
      secret: JSON.stringify({ authToken: 'bearer-of-nobody' }),
      fetch,
    }),
    {},
  );
  expect(provider.asked[1]?.headers).toMatchObject({ authorization: 'Bearer bearer-of-nobody' });
});

test('a prompt may hold a PDF, a sound and an address that the provider itself fetches', async () => {
  const { body } = await ask('google', {
    messages: [
      user([
        { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERg==' } },
        { type: 'input_audio', input_audio: { format: 'mp3', data: '//uQ' } },
        { type: 'image_url', image_url: { url: 'data:image/svg+xml,%3Csvg%2F%3E' } },
      ]),
    ],
  });
  expect(body['contents']).toMatchObject([
    {
      parts: [
        { inlineData: { mimeType: 'application/pdf' } },
        { inlineData: { mimeType: 'audio/mpeg', data: '//uQ' } },
        { inlineData: { mimeType: 'image/svg+xml', data: Buffer.from('<svg/>').toString('base64') } },
      ],
    },
  ]);
  const addressed = await ask('anthropic', {
    messages: [user([{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }])],
  });
  expect(addressed.body['messages']).toMatchObject([
    { content: [{ type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } }] },
  ]);
});

describe('refused, with the field at fault, and nothing is sent:', () => {
  const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } };
  test.each([
    ['an unknown role', { messages: [{ role: 'function', content: 'x' }] }, 'messages[0].role'],
    ['a message that is none', { messages: ['hi'] }, 'messages[0]'],
    [
      'a part of another kind',
      { messages: [user([{ type: 'video', video: {} }])] },
      'messages[0].content[0].type',
    ],
    [
      'a picture without address',
      { messages: [user([{ type: 'image_url', image_url: 'x' }])] },
      'messages[0].content[0].image_url',
    ],
    [
      "an address of this machine's files",
      { messages: [user([{ type: 'image_url', image_url: { url: 'file:///etc/passwd' } }])] },
      'messages[0].content[0].image_url.url',
    ],
    [
      'an address that no one would fetch',
      { messages: [user([{ type: 'image_url', image_url: { url: 'http://169.254.169.254/latest' } }])] },
      'messages',
    ],
    [
      'a file by its id',
      { messages: [user([{ type: 'file', file: { file_id: 'file-1' } }])] },
      'messages[0].content[0].file',
    ],
    [
      'a result of a call that no one made',
      { messages: [{ role: 'tool', tool_call_id: 'z', content: 'x' }] },
      'messages[0].tool_call_id',
    ],
    [
      'a call of another kind',
      { messages: [{ role: 'assistant', tool_calls: [{ ...call, type: 'custom' }] }] },
      'messages[0].tool_calls[0].type',
    ],
    ['a tool of another kind', { tools: [{ type: 'custom', custom: { name: 'x' } }] }, 'tools[0].type'],
    [
      'a choice among tools that is not known',
      { tools: [{ type: 'function', function: { name: 'f' } }], tool_choice: { type: 'allowed_tools' } },
      'tool_choice',
    ],
    ['functions of old', { functions: [{ name: 'f' }] }, 'functions'],
    ['a format that is not known', { response_format: { type: 'grammar' } }, 'response_format.type'],
    ['a temperature in words', { temperature: 'hot' }, 'temperature'],
    ['an effort that is not known', { reasoning_effort: 'utmost' }, 'reasoning_effort'],
    ['stops that are no text', { stop: [1] }, 'stop[0]'],
  ])('%s', async (_what, request, param) => {
    const { status, error } = await ask('google', request);
    expect({ status, error }).toEqual({
      status: 400,
      error: {
        message: expect.any(String) as string,
        type: 'invalid_request_error',
        param,
        code: 'invalid_value',
      },
    });
    expect(provider.asked).toEqual([]);
  });

  test("what the provider can't be reported, in the words of its package", async () => {
    const { status, error } = await ask('google', {
      messages: [user('hi'), { role: 'system', content: 'Late.' }],
    });
    expect(status).toBe(400);
    expect(error).toMatchObject({
      message: expect.stringContaining('system messages are only supported at the beginning') as string,
    });
  });
});

test('a history with arguments that are no JSON goes on', async () => {
  const { body, status } = await ask('google', {
    messages: [
      user('hi'),
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{"x": ' } }],
      },
      { role: 'tool', tool_call_id: 'a', content: 'These arguments are not JSON.' },
    ],
  });
  expect(status).toBe(200);
  expect(body['contents']).toMatchObject([
    {},
    { parts: [{ functionCall: { name: 'f', args: { invalid_arguments: '{"x": ' } } }] },
    {},
  ]);
});

test('a package of the specification before gets files as it knows them, and no effort', () => {
  const messages = [
    user([
      { type: 'image_url', image_url: { url: `data:image/png;base64,${PIXEL}` } },
      { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
    ]),
  ];
  const { options, unsupported } = callOptionsOf({ messages, reasoning_effort: 'low' }, null, 'v3');
  expect(options.prompt).toEqual([
    {
      role: 'user',
      content: [
        { type: 'file', mediaType: 'image/png', data: PIXEL },
        { type: 'file', mediaType: 'image/*', data: new URL('https://example.com/a.png') },
      ],
    },
  ]);
  expect({ unsupported, reasoning: options.reasoning }).toEqual({
    unsupported: ['reasoning_effort'],
    reasoning: undefined,
  });
  expect(callOptionsOf({ messages, reasoning_effort: 'low' }, null, 'v4')).toMatchObject({
    unsupported: [],
    options: { reasoning: 'low' },
  });
});
