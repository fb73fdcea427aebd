import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { chat, type ChatOptions, type ChatReply } from '../support/client.ts';
import { callScript, type ScriptedCall } from '../support/upstream/scripted-call.ts';
import { startUpstream, type ScriptedUpstream } from '../support/upstream/upstream.ts';
import type { Attempt } from '../support/upstream/ledger.ts';

let upstream: ScriptedUpstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.close());

const play = (
  script: string,
  fields: object = {},
  options: Partial<ChatOptions> = {},
): Promise<ScriptedCall> => callScript(upstream, script, fields, options);
const sse = { stream: true };
const sseWithUsage = { stream: true, stream_options: { include_usage: true } };

describe('a healthy reply', () => {
  test.each([
    ['JSON', {}],
    ['SSE', sseWithUsage],
  ])('is told alike by the ledger and the client, as %s', async (_, fields) => {
    const { reply, row } = await play('tokens=5,cached=3,reasoning=4', fields);
    expect(reply).toMatchObject({
      status: 200,
      upstreamId: row.id,
      problem: null,
      sawError: false,
      sawDone: row.sse,
    });
    expect(reply).toMatchObject({
      tokens: 5,
      text: 'tok0 tok1 tok2 tok3 tok4 ',
      finishReason: 'stop',
      finished: true,
    });
    expect(row).toMatchObject({ ended: 'complete', tokensSent: 5, contentBytesSent: 25 });
    expect(row).toMatchObject({ finishSent: true, doneSent: true, usageIsFinal: true });
    const prompt = Math.ceil(row.bodyBytes / 4);
    expect(row.usageReported).toEqual({ prompt, completion: 9, cached: 3, reasoning: 4 });
    expect(reply.usage).toMatchObject({
      prompt_tokens: prompt,
      completion_tokens: 9,
      total_tokens: prompt + 9,
      prompt_tokens_details: { cached_tokens: 3 },
      completion_tokens_details: { reasoning_tokens: 4 },
    });
    expect(reply.body).toEqual(upstream.ledger.replyBody(row.attempt));
    expect(reply.raw.length).toBe(row.bytesSent);
  });

  test.each([
    ['JSON', {}],
    ['SSE', sseWithUsage],
  ])('that obeys ends at the limit of the request, in each of its choices, as %s', async (_, fields) => {
    for (const name of ['max_tokens', 'max_completion_tokens']) {
      const { reply, row } = await play('tokens=9,reasoning=2,obey=yes', { ...fields, [name]: 5, n: 3 });
      expect(reply).toMatchObject({ finishReason: 'length', finished: true, tokens: 9 });
      expect(reply.text.match(/tok2 /g)).toHaveLength(3);
      expect(row.usageReported).toMatchObject({ completion: 11, reasoning: 2 });
    }
    const short = await play('tokens=3,obey=yes', { ...fields, max_tokens: 5 });
    expect(short.reply).toMatchObject({ finishReason: 'stop', tokens: 3 });
    const spread = await Promise.all(Array.from({ length: 12 }, () => play('tokens=1,spread=6', fields)));
    const lengths = spread.map(({ row }) => row.tokensSent);
    expect(new Set(lengths).size).toBeGreaterThan(2);
    expect(lengths.every((length) => length >= 1 && length <= 7)).toBe(true);
  });

  test('satisfies the OpenAI client library: JSON and streams, text and parallel tool calls', async () => {
    const client = new OpenAI({ baseURL: upstream.baseUrl, apiKey: 'any', maxRetries: 0 });
    const messages = [{ role: 'user' as const, content: 'hi' }];
    const plain = await client.chat.completions.create({ model: 'ok', messages });
    expect(plain.choices[0]?.message.content).toBe('tok0 tok1 tok2 tok3 tok4 tok5 tok6 tok7 ');
    const options = { stream_options: { include_usage: true } };
    const streamed = client.chat.completions.stream({ model: 's:tokens=6,tools=2', messages, ...options });
    const message = await streamed.finalMessage();
    expect(message.tool_calls?.map((call) => call.type === 'function' && call.function)).toMatchObject([
      { name: 'tool_0', arguments: '{"text":"tok0 tok1 tok2 "}' },
      { name: 'tool_1', arguments: '{"text":"tok3 tok4 tok5 "}' },
    ]);
    expect((await streamed.totalUsage()).completion_tokens).toBe(6);
    expect((await client.models.list()).data.map(({ id }) => id)).toContain('ok');
  });

  test('carries headers that a relay must not pass on', async () => {
    const { reply } = await play('');
    const names = ['set-cookie', 'openai-organization', 'x-ratelimit-limit-tokens', 'x-request-id', 'server'];
    for (const name of [...names, 'access-control-allow-origin']) expect(reply.header(name)).not.toBeNull();
  });
});

const ALL = 8;
describe('an ending', () => {
  // how and where, what the ledger says, how many tokens went out, and what the client is left with
  test.each<[string, object, Partial<Attempt>, Partial<ChatReply>]>([
    ['end=cut@head', sse, { ended: 'cut', status: null }, { status: null, problem: 'closed' }],
    ['end=reset@head', {}, { ended: 'reset', status: null }, { status: null, problem: 'ECONNRESET' }],
    ['end=cut@body', sse, { ended: 'cut', replyBytesSent: 0 }, { status: 200, bytes: 0, finished: false }],
    [
      'end=cut@3',
      sse,
      { ended: 'cut', tokensSent: 3 },
      { tokens: 3, finished: false, sawDone: false, problem: 'closed' },
    ],
    ['end=cut@3', {}, { ended: 'cut', tokensSent: 3 }, { finished: false, json: undefined }],
    ['end=reset@3', sse, { ended: 'reset', tokensSent: 3 }, { finished: false, problem: 'ECONNRESET' }],
    ['end=reset@0', {}, { ended: 'reset', tokensSent: 0 }, { finished: false, problem: 'ECONNRESET' }],
    [
      'end=stop@3',
      sse,
      { ended: 'stopped', tokensSent: 3 },
      { tokens: 3, finished: true, finishReason: null },
    ],
    ['end=stop@3', {}, { ended: 'stopped', tokensSent: 3 }, { finished: true, json: undefined }],
    ['end=stop@0', sse, { ended: 'stopped', tokensSent: 0 }, { tokens: 0, finished: true }],
    [
      'end=stop@finish',
      sse,
      { ended: 'complete', doneSent: false },
      { finishReason: 'stop', sawDone: false },
    ],
    [
      'end=stop@usage,usage=always',
      sse,
      { doneSent: false, usageIsFinal: true },
      { finished: true, sawDone: false },
    ],
    ['end=cut@done', sse, { ended: 'cut', doneSent: true }, { sawDone: true, finished: false }],
    ['end=cut@done', {}, { ended: 'complete' }, { finished: true, tokens: ALL }],
    [
      'end=error@3',
      sse,
      { ended: 'error_event', tokensSent: 3 },
      { sawError: true, tokens: 3, sawDone: false },
    ],
    [
      'end=error@3',
      {},
      { ended: 'error_event', tokensSent: 0 },
      { sawError: true, status: 200, finished: true },
    ],
    ['end=cut@3,framing=close', sse, { ended: 'stopped' }, { finished: true, tokens: 3 }],
    ['framing=close', {}, { ended: 'complete' }, { finished: true, tokens: ALL }],
    ['framing=length', sse, { ended: 'complete' }, { finished: true, sawDone: true }],
    ['framing=chunked', {}, { ended: 'complete' }, { finished: true, tokens: ALL }],
    ['length=+5', {}, { ended: 'cut' }, { finished: false, problem: 'closed' }],
    [
      'length=-5',
      {},
      { ended: 'stopped', tokensSent: ALL, doneSent: false },
      { finished: true, json: undefined },
    ],
    [
      'length=-5',
      sse,
      { ended: 'complete', finishSent: true, doneSent: false },
      { finished: true, sawDone: false },
    ],
    ['garbage=http', sse, { ended: 'garbage', status: null }, { status: null, problem: 'not HTTP' }],
    ['garbage=body', sse, { ended: 'garbage', status: 200 }, { status: 200, finished: true, tokens: 0 }],
    ['garbage=body', {}, { ended: 'garbage', status: 200 }, { status: 200, finished: true, json: undefined }],
  ])('%s of %j is in the ledger as it reached the client', async (script, fields, row, reply) => {
    const played = await play(script, fields);
    expect(played.row).toMatchObject(row);
    expect(played.reply).toMatchObject(reply);
  });

  test.each([
    ['end=hang@head', {}, 0],
    ['end=hang@body', sse, 0],
    ['end=hang@2', sse, 2],
    ['end=hang@2', {}, 2],
    ['end=hang@usage,usage=always', sse, ALL],
    ['end=hang@done', sse, ALL],
  ] as const)('%s of %j stays open until the client leaves', async (script, fields, tokensSent) => {
    const user = randomUUID();
    const leave = new AbortController();
    const reply = chat({
      port: upstream.port,
      body: { model: `s:${script}`, user, ...fields },
      signal: leave.signal,
    });
    await upstream.ledger.until(() => upstream.attemptsOf(user)[0]?.ended === 'hung');
    expect(upstream.attemptsOf(user)[0]).toMatchObject({
      endedAt: null,
      tokensSent,
      clientClosedEarly: false,
    });
    leave.abort();
    expect(await reply).toMatchObject({ aborted: true, finished: false });
    await upstream.ledger.until(() => upstream.attemptsOf(user)[0]?.endedAt !== null);
    expect(upstream.attemptsOf(user)[0]).toMatchObject({ ended: 'hung', clientClosedEarly: true });
  });

  test.each([
    ['SSE', sse, ': ping\n\n'],
    ['JSON', {}, ' '],
  ])('comments without progress go on until the client leaves, as %s', async (_, fields, comment) => {
    const user = randomUUID();
    const leave = new AbortController();
    const body = { model: 's:end=comments@2,every=1ms', user, ...fields };
    const reply = chat({ port: upstream.port, body, signal: leave.signal });
    await upstream.ledger.until(() => upstream.attemptsOf(user).some((row) => row.ended === 'hung'));
    const attempt = upstream.attemptsOf(user)[0]?.attempt ?? 0;
    await expect.poll(() => upstream.ledger.replyBody(attempt).toString()).toContain(comment.repeat(3));
    leave.abort();
    // A body that is kept waiting can't have known its length.
    expect((await reply).header('transfer-encoding')).toBe('chunked');
    await upstream.ledger.until(() => upstream.attemptsOf(user)[0]?.endedAt !== null);
    expect(upstream.attemptsOf(user)[0]).toMatchObject({
      ended: 'hung',
      clientClosedEarly: true,
      tokensSent: 2,
    });
  });
});

test.each<[string, Partial<Attempt>]>([
  ['head=1000s', { status: null, bytesSent: 0 }],
  ['first=1000s', { status: 200, replyBytesSent: 0 }],
  ['every=1000s', { tokensSent: 1 }],
  ['drip=1000s', { replyBytesSent: 1 }],
  ['split=7,drip=1000s', { replyBytesSent: 7 }],
])('a pause of %s is kept, and ends when the client leaves', async (script, held) => {
  const user = randomUUID();
  const leave = new AbortController();
  const reply = chat({
    port: upstream.port,
    body: { model: `s:${script}`, user, ...sse },
    signal: leave.signal,
  });
  await expect.poll(() => upstream.attemptsOf(user)[0]).toMatchObject(held);
  await play('tokens=50', sse);
  expect(upstream.attemptsOf(user)[0]).toMatchObject({ ...held, ended: 'open' });
  leave.abort();
  await reply;
  await upstream.ledger.until(() => upstream.attemptsOf(user)[0]?.ended === 'client_closed');
});

describe('a client that leaves', () => {
  test.each([
    ['sent', 'end=hang@head', { status: null }],
    ['head', 'end=hang@body', { status: 200, bytes: 0 }],
    ['token', 'end=hang@2', { tokens: 1 }],
    ['finish', 'end=hang@finish', { finishReason: 'stop', sawDone: false }],
    ['usage', 'end=hang@usage,usage=always', { usage: expect.anything(), sawDone: false }],
    ['done', 'end=hang@done', { sawDone: true }],
  ] as const)('does so at the moment that was asked for: %s', async (abortAt, script, seen) => {
    const { reply, row } = await play(script, sse, { abortAt });
    expect(reply).toMatchObject({ ...seen, aborted: true, finished: false, problem: null });
    expect(row.clientClosedEarly).toBe(true);
  });

  test.each(['connected', 'half_body'] as const)(
    'before its request is whole (%s) makes no attempt',
    async (abortAt) => {
      await using own = await startUpstream();
      const reply = await chat({ port: own.port, body: { model: 'ok', user: 'u' }, abortAt });
      expect(reply).toMatchObject({ aborted: true, status: null });
      await expect.poll(() => own.connections).toBe(0);
      expect(own.ledger.attempts).toEqual([]);
    },
  );

  test.each([
    ['close', 'end'],
    ['reset', 'ECONNRESET'],
  ] as const)('by %s shows itself to the other side as %s', async (abortBy, shown) => {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const end = once(server, 'connection').then(async ([socket]: Socket[]) => {
      socket?.resume();
      return (
        socket &&
        once(socket, 'end').then(
          () => 'end',
          (error: NodeJS.ErrnoException) => error.code,
        )
      );
    });
    const address = server.address();
    const port = typeof address === 'object' && address ? address.port : 0;
    await chat({ port, body: { model: 'ok' }, abortAt: 'sent', abortBy });
    expect(await end).toBe(shown);
    server.close();
  });

  test.each(['close', 'reset'] as const)('in the middle by %s is noticed', async (abortBy) => {
    const { reply, row } = await play('tokens=100000,every=1ms', sse, { abortAfterTokens: 3, abortBy });
    expect(reply).toMatchObject({ aborted: true, finished: false, tokens: 3 });
    expect(row).toMatchObject({ ended: 'client_closed', clientClosedEarly: true, finishSent: false });
    expect(row.tokensSent).toBeGreaterThanOrEqual(reply.tokens);
  });
});

const Chunk = z.object({ usage: z.unknown().optional(), choices: z.array(z.unknown()) });

/** What each chunk says of usage: nothing, null, or a report; and whether it does nothing else. */
function usageIn(reply: ChatReply): string[] {
  return reply.events.map((event) => {
    const { usage, choices } = Chunk.parse(event);
    const reported = usage === undefined ? '-' : usage === null ? 'null' : 'told';
    return choices.length === 0 ? `${reported} alone` : reported;
  });
}

describe('usage', () => {
  // the chunks of role, one token, finish, and perhaps the last one without choices
  test.each<[string, object, string[], number | null]>([
    ['asked', sse, ['-', '-', '-'], null],
    ['asked', sseWithUsage, ['null', 'null', 'null', 'told alone'], 1],
    ['always', sse, ['null', 'null', 'null', 'told alone'], 1],
    ['never', sseWithUsage, ['-', '-', '-'], null],
    ['finish', sse, ['-', '-', 'told'], 1],
    ['every', sse, ['-', 'told', 'told', 'told alone'], 1],
    ['nulls', sse, ['null', 'null', 'told'], 1],
    ['broken', sse, ['-', '-', '-', 'told alone'], null],
  ])('usage=%s of %j comes where it is said to', async (usage, fields, chunks, completion) => {
    const { reply, row } = await play(`tokens=1,usage=${usage}`, fields);
    expect(usageIn(reply)).toEqual(chunks);
    expect(row.usageReported?.completion ?? null).toBe(completion);
    expect(row.usageIsFinal).toBe(completion !== null);
  });

  test('a running total that is cut short is in the ledger as not final', async () => {
    const { row } = await play('usage=every,end=cut@3', sse);
    expect(row).toMatchObject({ usageIsFinal: false, usageReported: { completion: 3 } });
  });

  test.each(['never', 'broken'])('usage=%s leaves no count in a JSON body', async (usage) => {
    const { reply, row } = await play(`usage=${usage}`);
    expect(row.usageReported).toBeNull();
    const broken = { prompt_tokens: -1, completion_tokens: 'many', total_tokens: null };
    expect(reply.usage).toEqual(usage === 'never' ? undefined : broken);
  });
});
