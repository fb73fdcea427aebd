import { randomUUID } from 'node:crypto';
import { createServer, type Server } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { chat, type ChatReply } from '../support/client.ts';
import { errorCodeOf, openRequests, settledOf } from '../support/faults.ts';
import { startRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/**
 * Each deadline on its own: the others stay at a minute and more, far beyond the patience of the
 * client here, so that no other deadline can end the call in the place of the one that is tested.
 */

let upstream: ScriptedUpstream;
let silent: Server;

beforeAll(async () => {
  upstream = await startUpstream();
  // It takes connections and says nothing: a TLS greeting to it is never answered.
  silent = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => silent.once('listening', resolve));
});

afterAll(async () => {
  await upstream?.close();
  silent?.close();
});

const PATIENCE_MS = 15_000;

async function replies(
  variables: readonly string[],
  limitMs: number,
  script: string,
): Promise<{ reply: ChatReply; reason: string | undefined }[]> {
  const { port } = silent.address() as { port: number };
  await using relay = await startRelay({
    upstreams: [
      { baseUrl: upstream.baseUrl, models: ['s:*'] },
      { baseUrl: `https://127.0.0.1:${port}/v1`, models: ['silent'] },
    ],
    env: Object.fromEntries(variables.map((variable) => [variable, String(limitMs)])),
  });
  const calls = await Promise.all(
    [false, true].map((stream) => {
      const body = { model: script, messages: [], stream, user: randomUUID() };
      return chat({ port: relay.port, key: relay.key, body, timeoutMs: PATIENCE_MS });
    }),
  );
  expect(calls.map(({ problem }) => problem)).toEqual([null, null]);
  const events = await relay.waitFor((log) => openRequests(log).length === 0);
  return calls.map((reply) => ({ reply, reason: settledOf(events, reply.requestId)?.end_reason }));
}

describe('an upstream is given up by each deadline alone', () => {
  test.each([
    ['UPSTREAM_CONNECT_TIMEOUT_MS', 500, 'silent', 504],
    ['UPSTREAM_FIRST_BYTE_TIMEOUT_MS', 500, 's:end=hang@head', 504],
    ['UPSTREAM_IDLE_TIMEOUT_MS', 500, 's:end=hang@3', 200],
    // The first token must come within it, on a machine that has other things to do as well.
    ['UPSTREAM_TOTAL_TIMEOUT_MS', 5_000, 's:tokens=100000,every=20ms', 200],
  ])('%s of %d ms ends %s', async (variable, limitMs, script, sseStatus) => {
    const [json, sse] = await replies([variable], limitMs, script);
    expect([json?.reply.status, json && errorCodeOf(json.reply), json?.reason]).toEqual([
      504,
      'upstream_timeout',
      'timed_out',
    ]);
    expect([sse?.reply.status, sse && errorCodeOf(sse.reply), sse?.reason]).toEqual([
      sseStatus,
      'upstream_timeout',
      'timed_out',
    ]);
    expect(sse?.reply.sawDone).toBe(false);
  });
});

test('connect, first-byte and idle timeouts do not end a longer reply that keeps sending', async () => {
  const deadlines = [
    'UPSTREAM_CONNECT_TIMEOUT_MS',
    'UPSTREAM_FIRST_BYTE_TIMEOUT_MS',
    'UPSTREAM_IDLE_TIMEOUT_MS',
  ];
  for (const { reply, reason } of await replies(deadlines, 3_000, 's:tokens=60,every=75ms')) {
    expect([reply.status, reply.tokens, reason]).toEqual([200, 60, 'completed']);
  }
});
