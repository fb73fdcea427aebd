import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { ChatOpenAI } from '@langchain/openai';
import { APICallError, generateText, jsonSchema, streamText, type ToolSet } from 'ai';
import OpenAI, {
  APIConnectionError,
  APIError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  PermissionDeniedError,
} from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createSecret } from '#server/secrets/key-secret.ts';
import { openRequests, settledOf } from '../support/faults.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** What people really use, with nothing changed but the base address and the key. */

let upstream: ScriptedUpstream;
let relay: TestRelay;

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({ upstreams: [upstream] });
  upstream.script('gpt-steady', 'tokens=6,cached=2');
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const TEXT = 'tok0 tok1 tok2 tok3 tok4 tok5 ';
const HELLO = [{ role: 'user' as const, content: 'Hello' }];

async function settledOfLast(): Promise<ReturnType<typeof settledOf>> {
  const events = await relay.waitFor((log) => openRequests(log).length === 0);
  const newest = events.findLast(({ event }) => event.type === 'request.accepted')?.event;
  return settledOf(events, newest?.type === 'request.accepted' ? newest.request : null);
}

describe('the openai package', () => {
  const client = (apiKey = relay.key): OpenAI =>
    new OpenAI({ baseURL: relay.baseUrl, apiKey, maxRetries: 0 });

  test('chat', async () => {
    const {
      data,
      response,
      request_id: requestId,
    } = await client().chat.completions.create({ model: 'gpt-steady', messages: HELLO }).withResponse();
    expect(data.choices[0]?.message.content).toBe(TEXT);
    expect(data.usage).toMatchObject({ completion_tokens: 6, prompt_tokens_details: { cached_tokens: 2 } });
    expect(requestId).toBe(response.headers.get('x-request-id'));
    expect(await settledOfLast()).toMatchObject({
      request: requestId,
      end_reason: 'completed',
      output_tokens: 6,
      cache_read_tokens: 2,
    });
  });

  test('a stream, which never shows usage that was not asked for', async () => {
    const stream = await client().chat.completions.create({
      model: 'gpt-steady',
      messages: HELLO,
      stream: true,
    });
    let text = '';
    for await (const chunk of stream) {
      expect(chunk.choices).toHaveLength(1);
      text += chunk.choices[0]?.delta.content ?? '';
    }
    expect(text).toBe(TEXT);
    expect(await settledOfLast()).toMatchObject({
      end_reason: 'completed',
      usage_source: 'provider',
      output_tokens: 6,
    });
  });

  test('a stream with usage asked for', async () => {
    const stream = await client().chat.completions.create({
      model: 'gpt-steady',
      messages: HELLO,
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = await Array.fromAsync(stream);
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 6 } });
  });

  test('the stream helper', async () => {
    const completion = await client()
      .chat.completions.stream({ model: 'gpt-steady', messages: HELLO })
      .finalChatCompletion();
    expect(completion.choices[0]?.message.content).toBe(TEXT);
  });

  test('tools, both ways', async () => {
    const tools = [
      {
        type: 'function' as const,
        function: {
          name: 'tool_0',
          parameters: { type: 'object', properties: { text: { type: 'string' } } },
        },
      },
    ];
    const completion = await client()
      .chat.completions.stream({ model: 's:tokens=8,tools=2', messages: HELLO, tools })
      .finalChatCompletion();
    const calls = completion.choices[0]?.message.tool_calls ?? [];
    expect(
      calls.map((call) =>
        'function' in call ? [call.function.name, JSON.parse(call.function.arguments)] : [],
      ),
    ).toEqual([
      ['tool_0', { text: 'tok0 tok1 tok2 tok3 ' }],
      ['tool_1', { text: 'tok4 tok5 tok6 tok7 ' }],
    ]);
    const row = upstream.ledger.attempts.at(-1);
    expect(JSON.parse(upstream.ledger.requestBody(row?.attempt ?? 0).toString())).toMatchObject({
      tools,
      messages: HELLO,
    });
  });

  test('leaving a stream ends the call at the upstream', async () => {
    const stream = await client().chat.completions.create({
      model: 's:tokens=500,every=10ms',
      messages: HELLO,
      stream: true,
    });
    let seen = 0;
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content && ++seen === 3) break;
    await upstream.ledger.until((rows) => rows.at(-1)?.ended === 'client_closed');
    expect(await settledOfLast()).toMatchObject({
      end_reason: 'client_disconnected',
      usage_source: 'counted',
    });
  });

  test('an invalid key', async () => {
    const error = await client(createSecret('00000000'))
      .chat.completions.create({ model: 'ok', messages: HELLO })
      .catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(AuthenticationError);
    const requestID = expect.stringMatching(/^[0-9a-f-]{36}$/) as string;
    expect(error).toMatchObject({
      status: 401,
      code: 'invalid_api_key',
      type: 'authentication_error',
      requestID,
    });
  });

  test.each([
    ['s:status=400', BadRequestError, 'upstream_rejected'],
    ['s:status=500', InternalServerError, 'upstream_error'],
    ['s:status=401', InternalServerError, 'upstream_unauthorized'],
    ['s:status=429', InternalServerError, 'upstream_rate_limited'],
    ['s:end=cut@head', InternalServerError, 'upstream_error'],
    ['', BadRequestError, 'invalid_value'],
    ['s:status=404', NotFoundError, 'model_not_found'],
  ])('an error of %j has its class and its code', async (model, type, code) => {
    for (const stream of [false, true]) {
      const error = await client()
        .chat.completions.create({ model, messages: HELLO, stream })
        .catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(type);
      expect(error).toMatchObject({ code });
    }
  });

  test('a suspended account is a permission error', async () => {
    await relay.createAccount('out');
    const { secret } = await relay.createKey({ account: 'out' });
    await relay.control((control) => control.suspendAccount('out'));
    await expect(
      client(secret).chat.completions.create({ model: 'ok', messages: HELLO }),
    ).rejects.toBeInstanceOf(PermissionDeniedError);
  });

  test.each(['end=cut@3', 'end=reset@3', 'end=stop@3'])(
    'a stream that breaks off throws instead of looking finished: %s',
    async (script) => {
      const stream = await client().chat.completions.create({
        model: `s:${script}`,
        messages: HELLO,
        stream: true,
      });
      const chunks: unknown[] = [];
      const error = await (async () => {
        for await (const chunk of stream) chunks.push(chunk);
      })().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(APIError);
      expect(error).not.toBeInstanceOf(APIConnectionError);
      expect(error).toMatchObject({
        code: 'upstream_disconnected',
        message: expect.stringContaining('before it was complete') as string,
      });
      expect(chunks.length).toBeGreaterThanOrEqual(3);
    },
  );

  test('its own retries see the hint, and each is recorded', async () => {
    const retrying = new OpenAI({ baseURL: relay.baseUrl, apiKey: relay.key, maxRetries: 2 });
    const { choices } = await retrying.chat.completions.create({
      model: 's:status=503,retry=1|status=429,retry=1|tokens=6',
      messages: HELLO,
    });
    expect(choices[0]?.message.content).toBe(TEXT);
    const events = await relay.waitFor((log) => openRequests(log).length === 0);
    const accepted = events
      .flatMap(({ event }) => (event.type === 'request.accepted' ? [event] : []))
      .slice(-3);
    expect(accepted.map(({ retry_count: count }) => count)).toEqual([0, 1, 2]);
  });

  test('the list of models', async () => {
    const page = await client().models.list();
    const listed = page.data.map(({ id, object, owned_by: owner }) => ({ id, object, owner }));
    expect(listed).toContainEqual({ id: 'gpt-steady', object: 'model', owner: 'upstream-1' });
    expect(listed).toContainEqual({ id: 'daybook-demo', object: 'model', owner: 'demo' });
    await expect(client('nonsense').models.list()).rejects.toBeInstanceOf(AuthenticationError);
  });
});

describe('the ai package with @ai-sdk/openai-compatible', () => {
  const model = (id: string, includeUsage = false) =>
    createOpenAICompatible({ name: 'daybook', baseURL: relay.baseUrl, apiKey: relay.key, includeUsage })(id);

  test('text', async () => {
    const { text, finishReason, usage } = await generateText({ model: model('gpt-steady'), prompt: 'Hello' });
    expect([text, finishReason, usage.outputTokens]).toEqual([TEXT, 'stop', 6]);
  });

  test.each([true, false])('a stream (usage asked for: %s)', async (includeUsage) => {
    const result = streamText({ model: model('gpt-steady', includeUsage), prompt: 'Hello' });
    expect((await Array.fromAsync(result.textStream)).join('')).toBe(TEXT);
    expect([await result.finishReason, (await result.usage).outputTokens]).toEqual([
      'stop',
      includeUsage ? 6 : undefined,
    ]);
    expect(await settledOfLast()).toMatchObject({ usage_source: 'provider', output_tokens: 6 });
  });

  test('a tool call', async () => {
    const tools: ToolSet = {
      tool_0: { inputSchema: jsonSchema({ type: 'object', properties: { text: { type: 'string' } } }) },
    };
    const result = streamText({ model: model('s:tokens=4,tools=1'), prompt: 'Hello', tools });
    expect(await result.toolCalls).toMatchObject([
      { toolName: 'tool_0', input: { text: 'tok0 tok1 tok2 tok3 ' } },
    ]);
  });

  test('an error shows our message and code', async () => {
    const error = await generateText({ model: model(''), prompt: 'Hello', maxRetries: 0 }).catch(
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(APICallError);
    expect(error).toMatchObject({ statusCode: 400, message: expect.stringContaining('"model"') as string });
  });

  test('a stream that breaks off is an error', async () => {
    const errors: unknown[] = [];
    const result = streamText({
      model: model('s:end=cut@3'),
      prompt: 'Hello',
      maxRetries: 0,
      onError: ({ error }) => void errors.push(error),
    });
    await Array.fromAsync(result.textStream).catch(() => undefined);
    expect(errors).toHaveLength(1);
    expect(JSON.stringify(errors[0]) + String(errors[0])).toMatch(
      /upstream_disconnected|before it was complete/,
    );
  });
});

describe('the @langchain/openai package', () => {
  const model = (id: string): ChatOpenAI =>
    new ChatOpenAI({
      model: id,
      apiKey: relay.key,
      configuration: { baseURL: relay.baseUrl },
      maxRetries: 0,
    });

  test('chat', async () => {
    const reply = await model('gpt-steady').invoke('Hello');
    expect(reply).toMatchObject({ content: TEXT, usage_metadata: { output_tokens: 6 } });
  });

  test('a stream', async () => {
    const chunks = await Array.fromAsync(await model('gpt-steady').stream('Hello'));
    expect(chunks.reduce((whole, chunk) => whole.concat(chunk))).toMatchObject({
      content: TEXT,
      usage_metadata: { output_tokens: 6 },
    });
  });

  test('a stream that breaks off throws', async () => {
    const stream = await model('s:end=cut@3').stream('Hello');
    await expect(Array.fromAsync(stream)).rejects.toThrow(/before it was complete/);
  });

  test('an invalid key throws', async () => {
    const stranger = new ChatOpenAI({
      model: 'ok',
      apiKey: 'nonsense',
      configuration: { baseURL: relay.baseUrl },
      maxRetries: 0,
    });
    await expect(stranger.invoke('Hello')).rejects.toMatchObject({ status: 401, code: 'invalid_api_key' });
  });
});
