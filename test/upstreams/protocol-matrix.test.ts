import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { UPSTREAMS } from '#server/protocols/upstreams.ts';
import {
  callPair,
  type Matrix,
  type Replied,
  settlementOf,
  startMatrix,
} from '../support/protocols/pairs.ts';
import { providerCallOf } from '../support/protocols/provider-call.ts';
import { type Pair, PAIRS, readBody, readStream } from '../support/protocols/read-replies.ts';
import { type Found, foundIn } from '../support/protocols/replies.ts';

/** Clients of each protocol, at upstreams that have one protocol each. */

let matrix: Matrix;

beforeAll(async () => {
  matrix = await startMatrix();
});
afterAll(async () => {
  await matrix?.[Symbol.asyncDispose]();
});

let models = 0;
function modelOf({ upstream }: Pair, script: string): string {
  const model = `${upstream}-${models++}`;
  matrix.upstream.script(model, script);
  return model;
}

const CALL = providerCallOf();
/** What the reply says to its client, and the usage that it reports. */
function read({ client }: Pair, { text }: Replied, isStreamed: boolean): Found & { usage: object } {
  const bytes = Buffer.from(text);
  const found = foundIn(isStreamed ? readStream(client, text) : readBody(client, bytes));
  const sse = UPSTREAMS[client].sse(CALL);
  if (isStreamed) sse.push(bytes);
  const usage = isStreamed ? sse.usage : (UPSTREAMS[client].json(bytes)?.usage ?? null);
  const { input = 0, cached = 0, output = 0 } = usage ?? {};
  return { ...found, usage: { input, cached, output } };
}

const tokens = (from: number, to: number): string =>
  Array.from({ length: to - from }, (_, index) => `tok${from + index} `).join('');

describe.each(PAIRS)('a client of $client at an upstream of $upstream', (pair) => {
  test.each([false, true])('gets the whole reply and its usage, and is settled by it: %s', async (sse) => {
    const reply = await callPair(matrix, pair.client, modelOf(pair, 'tokens=6,cached=1,text=utf8'), sse);
    expect([reply.status, reply.code]).toEqual([200, null]);
    const { text, reason, usage } = read(pair, reply, sse);
    expect(text.endsWith('5 ')).toBe(true);
    expect(reason).toBe('stop');
    const settled = await settlementOf(matrix, reply);
    expect(settled).toMatchObject({ end_reason: 'completed', usage_source: 'provider', output_tokens: 6 });
    expect(usage).toEqual({ input: settled.input_tokens, cached: 1, output: 6 });
  });

  test.each([false, true])('gets every parallel call with its arguments: %s', async (sse) => {
    const reply = await callPair(matrix, pair.client, modelOf(pair, 'tokens=8,tools=2,split=7'), sse);
    const { calls, reason, usage } = read(pair, reply, sse);
    expect(reason).toBe('tool_calls');
    expect(calls).toMatchObject([{ name: 'tool_0' }, { name: 'tool_1' }]);
    expect(new Set(calls.map(({ id }) => id)).size).toBe(2);
    const inputs = calls.map(({ input }) => Object.values(input as object).join(''));
    expect(inputs.join('')).toBe(tokens(0, 8));
    expect(usage).toMatchObject({ output: 8 });
  });

  test('gets an error of its own protocol where the stream breaks off, and is settled once', async () => {
    const reply = await callPair(matrix, pair.client, modelOf(pair, 'tokens=9,end=cut@3'), true);
    expect([reply.status, reply.code]).toEqual([200, 'upstream_disconnected']);
    expect(await settlementOf(matrix, reply)).toMatchObject({
      end_reason: 'upstream_disconnected',
      usage_source: 'counted',
      output_tokens: 3,
    });
  });
});
