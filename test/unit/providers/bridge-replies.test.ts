import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { VERSION as ANTHROPIC } from '@ai-sdk/anthropic';
import { VERSION as COHERE } from '@ai-sdk/cohere';
import { VERSION as GOOGLE } from '@ai-sdk/google';
import { type Bridge, openBridge } from '#server/providers/bridge/bridge.ts';
import { Chunks } from '#server/providers/bridge/chunks.ts';
import type { StreamPart } from '#server/providers/bridge/language-model.ts';
import { bridged, bridgesTo, toolCallsOf } from '../../support/providers/bridged.ts';
import { readChatBody } from '../../support/wire/chat-body.ts';
import { type ScriptedProvider, startProvider } from '../../support/upstream/scripted-provider.ts';

const SECRET = 'AIzaSyNotAKeyOfAnybody0123456789';
let provider: ScriptedProvider;
let bridges: Record<string, Bridge>;

beforeAll(async () => {
  provider = await startProvider();
  bridges = bridgesTo(provider, SECRET);
});
afterAll(() => provider[Symbol.asyncDispose]());
beforeEach(() => {
  provider.answers.length = 0;
  provider.asked.length = 0;
});

const by = (name: string): Bridge => bridges[name] as Bridge;
const sse = { stream: true };
const usage = (prompt: number, completion: number, cached = 0, reasoning = 0): object => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: prompt + completion,
  prompt_tokens_details: { cached_tokens: cached },
  completion_tokens_details: { reasoning_tokens: reasoning },
});

test('the packages are those whose wire the fixtures are made of', () => {
  expect([GOOGLE, COHERE, ANTHROPIC].every((version) => version.startsWith('4.'))).toBe(true);
});

describe.each([
  {
    name: 'google',
    fixture: 'google-text.sse',
    text: 'The tide turns at noon — 潮汐.',
    reported: usage(14, 6),
  },
  { name: 'cohere', fixture: 'cohere-text.sse', text: 'The tide turns at noon.', reported: usage(14, 6) },
  {
    name: 'anthropic',
    fixture: 'anthropic-text.sse',
    text: 'The tide turns at noon.',
    reported: {
      ...usage(135, 15, 100),
      prompt_tokens_details: { cached_tokens: 100, cache_write_tokens: 10 },
    },
  },
])('a streamed text of $name', ({ name, fixture, text, reported }) => {
  test.each([undefined, 7])('is a streamed chat completion, in pieces of %s bytes', async (pieceBytes) => {
    provider.answers.push({ fixture, ...(pieceBytes ? { pieceBytes } : {}) });
    const { status, headers, chat, tap, endings } = await bridged(by(name), sse);
    expect({ status, endings, type: headers['content-type'] }).toEqual({
      status: 200,
      endings: ['end'],
      type: 'text/event-stream',
    });
    expect(chat).toMatchObject({
      text,
      finishReason: 'stop',
      sawDone: true,
      sawError: false,
      usage: reported,
    });
    expect(tap).toMatchObject({ complete: true, failed: false });
    expect(tap.usage).toMatchObject({ input: (reported as { prompt_tokens: number }).prompt_tokens });
    expect(chat.events[0]).toMatchObject({
      object: 'chat.completion.chunk',
      choices: [{ index: 0, delta: { role: 'assistant' }, finish_reason: null }],
    });
  });
});

test('reasoning goes beside the text, and its tokens are part of the usage', async () => {
  provider.answers.push({ fixture: 'google-thinking.sse' });
  const { chat } = await bridged(by('google'), sse);
  expect(chat.events).toContainEqual(
    expect.objectContaining({
      choices: [
        {
          index: 0,
          delta: { reasoning_content: '**Reading the tables**\n\nHigh water is noon.' },
          finish_reason: null,
        },
      ],
    }),
  );
  expect(chat).toMatchObject({ finishReason: 'stop', usage: usage(20, 37, 8, 32) });
});

describe('tool calls', () => {
  const leith = { name: 'tide_at', arguments: JSON.stringify({ harbour: 'Leith' }) };
  const signed = { extra: { google: { thoughtSignature: 'CrMCAdHtim9sZWl0aA==' } } };

  test.each([
    {
      fixture: 'google-tools.sse',
      name: 'google',
      calls: [
        { ...leith, ...signed },
        { name: 'now', arguments: '{}' },
      ],
    },
    {
      fixture: 'cohere-tools.sse',
      name: 'cohere',
      calls: [
        { ...leith, arguments: '{\n    "harbour": "Leith"\n}', id: 'tide_at_w5vx' },
        { name: 'now', arguments: '{}', id: 'now_8k2p' },
      ],
    },
    {
      fixture: 'anthropic-tools.sse',
      name: 'anthropic',
      calls: [
        { ...leith, arguments: '{"harbour": "Leith"}', id: 'toolu_01T1x1fJ34qAmk2tNTrN7Up6' },
        { name: 'now', arguments: '{}', id: 'toolu_02' },
      ],
    },
  ])('in parallel keep their order, ids and arguments: $fixture', async ({ fixture, name, calls }) => {
    provider.answers.push({ fixture });
    const { chat } = await bridged(by(name), { ...sse, tools: [tool('tide_at'), tool('now')] });
    expect(toolCallsOf(chat)).toMatchObject(calls);
    expect(chat).toMatchObject({ finishReason: 'tool_calls', sawDone: true });
  });

  test('of a complete reply stand beside its text', async () => {
    provider.answers.push({ fixture: 'google-tools.json' });
    const { chat, headers } = await bridged(by('google'), { tools: [tool('tide_at'), tool('now')] });
    expect(toolCallsOf(chat)).toMatchObject([
      { ...leith, ...signed, id: expect.stringMatching(/./) as string },
      { name: 'now', arguments: '{}' },
    ]);
    expect(chat).toMatchObject({ finishReason: 'tool_calls', usage: usage(61, 36) });
    expect(chat.json).toMatchObject({
      object: 'chat.completion',
      choices: [{ message: { role: 'assistant', content: 'Let me look.' } }],
    });
    expect(headers['content-type']).toBe('application/json');
  });
});

test.each([
  { fixture: 'google-text.json', name: 'google', reported: usage(14, 6) },
  { fixture: 'cohere-text.json', name: 'cohere', reported: usage(14, 6), reasoning: 'Noon is high water.' },
  { fixture: 'anthropic-text.json', name: 'anthropic', reported: { total_tokens: 150 } },
])('a complete reply is a chat completion: $fixture', async ({ fixture, name, reported, reasoning }) => {
  provider.answers.push({ fixture });
  const { chat, status, endings } = await bridged(by(name), {});
  expect({ status, endings }).toEqual({ status: 200, endings: ['end'] });
  expect(chat.json).toMatchObject({
    choices: [
      {
        message: {
          content: 'The tide turns at noon.',
          ...(reasoning ? { reasoning_content: reasoning } : {}),
        },
        finish_reason: 'stop',
      },
    ],
    usage: reported,
  });
});

test('calls that share an id are calls of their own, and a call without deltas is written whole', () => {
  const chunks = new Chunks({ id: 'x', model: 'm', createdS: 1 });
  const parts: StreamPart[] = [
    { type: 'tool-input-start', id: '', toolName: 'a' },
    { type: 'tool-input-delta', id: '', delta: '{"at":1}' },
    { type: 'tool-call', toolCallId: '', toolName: 'a', input: '{"at":1}' },
    { type: 'tool-call', toolCallId: '', toolName: 'b', input: '{"at":2}' },
    { type: 'tool-input-start', id: 'own', toolName: 'search', providerExecuted: true },
    { type: 'tool-input-delta', id: 'own', delta: '{"q":1}' },
    { type: 'tool-call', toolCallId: 'own', toolName: 'search', input: '{"q":1}', providerExecuted: true },
  ];
  const reader = readChatBody(() => undefined);
  reader.begin('text/event-stream');
  for (const part of parts) reader.push(Buffer.from(chunks.take(part)));
  expect(toolCallsOf(reader.end(Buffer.alloc(0)))).toEqual([
    { id: 'call_0', name: 'a', arguments: '{"at":1}' },
    { id: 'call_1', name: 'b', arguments: '{"at":2}' },
  ]);
});

test('a picture that the model made goes along', async () => {
  provider.answers.push({ fixture: 'google-image.sse' });
  const { chat } = await bridged(by('google'), sse);
  expect(chat.events).toContainEqual(
    expect.objectContaining({
      choices: [
        expect.objectContaining({
          delta: {
            images: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }],
          },
        }),
      ],
    }),
  );
});

test('a blocked prompt is a complete reply that says why it is empty', async () => {
  provider.answers.push({ fixture: 'google-blocked.sse' });
  expect((await bridged(by('google'), sse)).chat).toMatchObject({
    text: '',
    finishReason: 'content_filter',
    sawDone: true,
  });
});

describe('a stream that does not end as it should', () => {
  test.each(['google-cut.sse', 'cohere-cut.sse'])(
    'has no finish reason and no [DONE] where the provider gave none: %s',
    async (fixture) => {
      provider.answers.push({ fixture });
      const { chat, tap, endings, status } = await bridged(by(fixture.split('-')[0] as string), sse);
      expect({ status, endings }).toEqual({ status: 200, endings: ['end'] });
      expect(chat).toMatchObject({ finishReason: null, sawDone: false });
      expect(tap).toMatchObject({ complete: false, failed: false });
    },
  );

  test("is a failed connection where the provider's was", async () => {
    provider.answers.push({ fixture: 'google-cut.sse', ending: 'reset' });
    const { chat, status, endings, error } = await bridged(by('google'), sse);
    expect({ status, endings }).toEqual({ status: 200, endings: ['error'] });
    expect(chat).toMatchObject({ text: 'The tide turns', finishReason: null, sawDone: false });
    expect(error).toHaveProperty('code');
  });

  test.each(['google-error-event.sse', 'anthropic-overloaded-late.sse', 'google-not-json.sse'])(
    'reports an error in its midst, and ends with it: %s',
    async (fixture) => {
      provider.answers.push({ fixture });
      const { chat, tap, endings, text } = await bridged(by(fixture.split('-')[0] as string), sse);
      expect(endings).toEqual(['end']);
      expect(chat).toMatchObject({ text: 'The tide', sawError: true, sawDone: false, finishReason: null });
      expect(tap).toMatchObject({ complete: false, failed: true });
      expect(text.trimEnd().split('\n').at(-1)).toMatch(
        /^data: \{"error":\{"message":".+","type":"server_error","param":null,"code":"upstream_error"\}\}$/,
      );
      expect(text).not.toContain('candidates');
    },
  );

  test.each([
    { fixture: 'google-error-first.sse', expected: 503 },
    { fixture: 'anthropic-overloaded.sse', expected: 529 },
    { fixture: 'google-malformed-call.sse', expected: 502 },
  ])('has not begun where its first word is an error: $fixture', async ({ fixture, expected }) => {
    provider.answers.push({ fixture });
    const { status, headers, chat, endings } = await bridged(by(fixture.split('-')[0] as string), sse);
    expect({ status, endings, type: headers['content-type'] }).toEqual({
      status: expected,
      endings: ['end'],
      type: 'application/json',
    });
    expect(chat.json).toMatchObject({ error: { message: expect.stringMatching(/./) as string } });
  });

  test('has failed where there is nothing in it', async () => {
    provider.answers.push({ fixture: 'google-empty.sse' });
    expect(await bridged(by('google'), sse)).toMatchObject({ status: null, endings: ['error'] });
  });

  test('has failed where half of a complete reply came, which is asked to have begun', async () => {
    provider.answers.push({ fixture: 'google-truncated.json' });
    const { status, endings, text } = await bridged(by('google'), {});
    expect({ status, endings, text }).toEqual({ status: 200, endings: ['error'], text: '' });
  });
});

describe.each([{}, sse])('an error of the provider, asked for %j', (request) => {
  test.each([
    {
      fixture: 'google-429.json',
      status: 429,
      headers: { 'retry-after': '17' },
      message: 'Resource has been exhausted (e.g. check quota).',
    },
    {
      fixture: 'cohere-429.json',
      status: 429,
      headers: { 'retry-after-ms': '1500' },
      message: 'You are using a Trial key, which is limited to 40 API calls / minute.',
    },
    { fixture: 'anthropic-529.json', status: 529, headers: {}, message: 'Overloaded' },
  ])('keeps its status, hint and message: $fixture', async ({ fixture, status, headers, message }) => {
    provider.answers.push({ fixture, status, headers });
    const reported = await bridged(by(fixture.split('-')[0] as string), request);
    expect(reported).toMatchObject({
      status,
      endings: ['end'],
      chat: { json: { error: { message, param: null } } },
    });
    expect(reported.headers['retry-after']).toBe({ 17: '17', 1500: '2' }[Object.values(headers)[0] ?? '']);
  });

  test('without a word of its own has the status alone', async () => {
    provider.answers.push({ text: `<html>${SECRET}</html>`, status: 500 });
    const reported = await bridged(by('google'), request);
    expect(reported).toMatchObject({ status: 500, endings: ['end'] });
    expect(reported.text).not.toContain(SECRET);
  });

  test('of a wrong credential is one of the credential', async () => {
    provider.answers.push({ fixture: 'google-key.json', status: 400 });
    expect(await bridged(by('google'), request)).toMatchObject({ status: 401, endings: ['end'] });
  });

  test('reports neither credentials nor addresses', async () => {
    provider.answers.push({ fixture: 'google-400.json', status: 400 });
    const { text, status } = await bridged(by('google'), request);
    expect(status).toBe(400);
    expect(text).toContain('temperature value of 9.0');
    expect(text).not.toMatch(/AIza|https?:|googleapis/);
  });

  test('reports no credential of whatever kind', async () => {
    const several = openBridge({
      terms: { package: '@ai-sdk/google', base_url: provider.url },
      secret: '{"apiKey":"first-of-nobody","more":{"deep":"second-of-nobody"}}',
      fetch,
    });
    provider.answers.push({
      text: JSON.stringify({
        error: {
          code: 400,
          message: 'first-of-nobody and second-of-nobody are wrong',
          status: 'INVALID_ARGUMENT',
        },
      }),
      status: 400,
    });
    expect((await bridged(several, request)).chat.json).toMatchObject({
      error: { message: '[credential] and [credential] are wrong' },
    });
  });

  test('is no error of the process where no one answers', async () => {
    const gone = await startProvider();
    await gone[Symbol.asyncDispose]();
    const nobody = openBridge({
      terms: { package: '@ai-sdk/google', base_url: gone.url },
      secret: SECRET,
      fetch,
    });
    const { status, endings, error } = await bridged(nobody, request);
    expect({ status, endings }).toEqual({ status: null, endings: ['error'] });
    expect(error).toMatchObject({ code: 'ECONNREFUSED' });
  });
});

function tool(name: string): object {
  return {
    type: 'function',
    function: {
      name,
      description: name,
      parameters: { type: 'object', properties: { harbour: { type: 'string' } } },
    },
  };
}
