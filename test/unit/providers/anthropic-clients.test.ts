import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ApiError } from '#server/errors/api-error.ts';
import { anthropic } from '#server/providers/anthropic/provider.ts';
import { callOf, fixture, runThrough, type Sent } from '../../support/providers/anthropic-calls.ts';
import { requestText } from '../../support/providers/request-text.ts';

/** The clients of both protocols, and between them and a fixture nothing but the provider. */

let server: Server;
let base = '';
/** What went out for the last call. */
let out: Sent;

beforeAll(async () => {
  server = createServer((request, response) => {
    void request.toArray().then((chunks: Buffer[]) => {
      const route = request.url?.startsWith('/v1/messages') ? '/v1/messages' : '/v1/chat/completions';
      const call = callOf(Buffer.concat(chunks).toString(), { route });
      const sent = anthropic.request(call);
      if (sent instanceof ApiError) return response.writeHead(sent.status).end(sent.body('r'));
      out = JSON.parse(requestText(sent)) as Sent;
      // The model's name is the fixture's.
      const bytes = fixture(`${call.parsed.model}.${call.parsed.sse ? 'sse' : 'json'}`);
      response.writeHead(200, { 'content-type': call.parsed.sse ? 'text/event-stream' : 'application/json' });
      return response.end(
        call.parsed.sse ? runThrough(anthropic.sse(call), [bytes]) : anthropic.json(bytes, call)?.bytes,
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => server.close());

const openai = (): OpenAI => new OpenAI({ baseURL: `${base}/v1`, apiKey: 'x', maxRetries: 0 });
const ask = [{ role: 'user', content: 'When is high water?' }] as const;
const tools = [
  { type: 'function', function: { name: 'tide_at', parameters: { type: 'object', properties: {} } } },
] as const;

describe('the client of chat completions', () => {
  test('reads a streamed reply to its end, usage and all', async () => {
    const stream = openai().chat.completions.stream({
      model: 'text',
      messages: [...ask],
      stream_options: { include_usage: true },
    });
    const whole = await stream.finalChatCompletion();
    expect(whole).toMatchObject({
      choices: [{ message: { content: 'The tide turns at noon.' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 14, completion_tokens: 6 },
    });
  });

  test.each(['streamed', 'whole'])(
    'calls tools in parallel and sends their results back, of a %s reply',
    async (kind) => {
      const client = openai().chat.completions;
      const asked = { messages: [...ask], tools: [...tools] };
      const { choices } =
        kind === 'whole'
          ? await client.create({ model: 'tool-call', ...asked })
          : await client.stream({ model: 'parallel-tools', ...asked }).finalChatCompletion();
      const message = choices[0]?.message as OpenAI.ChatCompletionMessage;
      const calls = message.tool_calls ?? [];
      expect(calls.map((call) => call.type === 'function' && call.function.name)).toEqual(['tide_at', 'now']);
      const results = calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'noon' }) as const);
      await client.create({ model: 'text', messages: [...ask, message, ...results], tools: [...tools] });
      expect(
        out.messages
          .map(({ role, content }) => [
            role,
            content.map(({ type, id, tool_use_id: of }) => [type, id ?? of]),
          ])
          .slice(1),
      ).toEqual([
        [
          'assistant',
          [
            ...(kind === 'whole' ? [['text', undefined]] : []),
            ['tool_use', 'toolu_01A'],
            ['tool_use', 'toolu_01B'],
          ],
        ],
        [
          'user',
          [
            ['tool_result', 'toolu_01A'],
            ['tool_result', 'toolu_01B'],
          ],
        ],
      ]);
    },
  );

  test('throws an error that comes in the middle, and takes no part for the whole', async () => {
    const read = async (): Promise<string> => {
      let text = '';
      for await (const chunk of await openai().chat.completions.create({
        model: 'broken-error-event',
        messages: [...ask],
        stream: true,
      }))
        text += chunk.choices[0]?.delta.content ?? '';
      return text;
    };
    await expect(read()).rejects.toMatchObject({ code: 'upstream_rate_limited' });
  });

  test("is reported by its field what can't be said", async () => {
    const content = [{ type: 'input_audio', input_audio: { data: '', format: 'wav' } }] as const;
    await expect(
      openai().chat.completions.create({
        model: 'text',
        messages: [{ role: 'user', content: [...content] }],
      }),
    ).rejects.toMatchObject({ status: 400, param: 'messages[0].content[0].input_audio' });
  });
});

describe("the client of Anthropic's messages", () => {
  const client = (): Anthropic => new Anthropic({ baseURL: base, apiKey: 'x', maxRetries: 0 });
  const asked = { max_tokens: 9, messages: [...ask] };

  test('reads streamed replies as if nothing were between', async () => {
    const message = await client()
      .messages.stream({ model: 'tool-call', ...asked })
      .finalMessage();
    expect(message).toMatchObject({
      stop_reason: 'tool_use',
      content: [{ type: 'text' }, { type: 'tool_use', name: 'tide_at', input: { harbour: 'Leith' } }],
      usage: { input_tokens: 58, output_tokens: 9 },
    });
  });

  test('reads whole ones', async () => {
    expect(await client().messages.create({ model: 'cached-usage', ...asked })).toMatchObject({
      stop_reason: 'end_turn',
      usage: { cache_read_input_tokens: 1800 },
    });
  });

  test('throws an error that comes in the middle', async () => {
    await expect(
      client()
        .messages.stream({ model: 'broken-error-event', ...asked })
        .finalMessage(),
    ).rejects.toThrow(/Overloaded/);
  });
});
