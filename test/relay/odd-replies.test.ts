import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Placed } from '#db/events/events.ts';
import { INFORMATIONAL_REPLIES_MAX } from '#server/relay/bounds.ts';
import { chat, type ChatReply } from '../support/client.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { type RawUpstream, startRawUpstream } from '../support/upstream/raw-upstream.ts';

/** Replies that a correct or careless upstream may send, byte for byte. */

/** Does not begin like any vendor's. */
const CREDENTIAL = '7f3a9c51-be02-4d0e-90d1-aa00c91e6bf6';
const REPLY = JSON.stringify({
  choices: [{ index: 0, message: { role: 'assistant', content: 'seven bytes' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 },
});
const OK = (headers: string, body = REPLY): string =>
  `HTTP/1.1 200 OK\r\n${headers}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
const JSON_TYPE = 'content-type: application/json\r\n';
const failed = (status: number, message: string, param: string): string => {
  const body = JSON.stringify({ error: { message, param } });
  return `HTTP/1.1 ${status} No\r\n${JSON_TYPE}content-length: ${body.length}\r\n\r\n${body}`;
};
const stream = (...events: object[]): string =>
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n' +
  events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
const early = (count: number): string => 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'.repeat(count);

const REPLIES: Record<string, string> = {
  continue: `HTTP/1.1 100 Continue\r\n\r\n${OK(JSON_TYPE)}`,
  early: early(3) + OK(JSON_TYPE),
  flood: early(INFORMATIONAL_REPLIES_MAX + 1) + OK(JSON_TYPE),
  'early-only': early(2),
  untyped: OK(''),
  'two-types': OK('content-type: application/json, text/html\r\n'),
  'two-headers': OK(`${JSON_TYPE}content-type: text/html\r\n`),
  'similar-type': OK('content-type: application/jsonx\r\n'),
  html: OK('content-type: text/html\r\n'),
  header: OK(`${JSON_TYPE}x-daybook-unsupported: ${CREDENTIAL}\r\n`),
  absurd: OK(JSON_TYPE, REPLY.replace('"total_tokens":12', '"total_tokens":2000000000')),
  'echo-400': failed(400, `Key ${CREDENTIAL} of 127.0.0.1 is wrong`, CREDENTIAL),
  'echo-404': failed(404, `Key ${Buffer.from(`x${CREDENTIAL}`).toString('base64')} is wrong`, 'model'),
  'echo-422': failed(422, `Key ${CREDENTIAL} is wrong`, 'model'),
  'echo-200': OK(JSON_TYPE, REPLY.replace('seven bytes', CREDENTIAL)),
  'echo-event': stream(
    { choices: [{ index: 0, delta: { content: `my key is ${CREDENTIAL}` } }] },
    { error: { message: `Key ${CREDENTIAL} failed at http://10.1.2.3/v1` } },
  ),
};

let upstream: RawUpstream;
let relay: TestRelay;

beforeAll(async () => {
  upstream = await startRawUpstream((body, socket) => {
    const { model } = JSON.parse(body) as { model: string };
    const bytes = REPLIES[model] ?? '';
    // In two writes, so that secrets and heads are divided.
    socket.write(bytes.slice(0, bytes.length / 2));
    setImmediate(() => {
      socket.write(bytes.slice(bytes.length / 2));
      if (bytes.includes('connection: close')) socket.end();
    });
  });
  // An upstream for each reply: a failure must not open the circuit of another one.
  relay = await startRelay({
    upstreams: Object.keys(REPLIES).map((name) => ({
      name,
      baseUrl: upstream.baseUrl,
      apiKey: CREDENTIAL,
      models: [name],
    })),
    env: { UPSTREAM_FIRST_BYTE_TIMEOUT_MS: '3000' },
  });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.[Symbol.asyncDispose]();
});

const ask = (model: string, more: object = {}): Promise<ChatReply> =>
  chat({
    port: relay.port,
    key: relay.key,
    body: { model, messages: [{ role: 'user', content: 'a' }], ...more },
  });

describe('informational replies', () => {
  test.each(['continue', 'early'])('before a reply are ignored: %s', async (model) => {
    const reply = await ask(model);
    expect(reply).toMatchObject({ status: 200 });
    expect(reply.body.toString()).toBe(REPLY);
  });

  test('without a reply end at the deadline for the first byte', async () => {
    expect(await ask('early-only')).toMatchObject({ status: 504 });
  });

  test('beyond the bound end the call', async () => {
    expect(await ask('flood')).toMatchObject({ status: 502 });
  });
});

describe('a Content-Type', () => {
  test.each(['untyped', 'two-types', 'two-headers'])('of JSON is our own: %s', async (model) => {
    const reply = await ask(model);
    expect(reply).toMatchObject({ status: 200 });
    expect(reply.headers.filter(([name]) => name.toLowerCase() === 'content-type')).toEqual([
      ['content-type', 'application/json'],
    ]);
    expect(reply.header('x-content-type-options')).toBe('nosniff');
  });

  test.each(['similar-type', 'html'])('of another kind ends the call: %s', async (model) => {
    const reply = await ask(model);
    expect(reply).toMatchObject({ status: 502 });
    expect(reply.header('x-content-type-options')).toBe('nosniff');
  });
});

test.each(['echo-400', 'echo-404', 'echo-422', 'echo-200', 'header'])(
  'a credential that the upstream repeats is removed: %s',
  async (model) => {
    const text = (await ask(model)).raw.toString();
    expect(text).not.toContain(CREDENTIAL);
    expect(text).not.toContain(Buffer.from(CREDENTIAL).toString('base64').slice(0, 40));
    expect(text).not.toContain('127.0.0.1');
    expect(text.includes('[credential]')).toBe(model !== 'header');
  },
);

test('a credential that the upstream repeats in a stream is removed', async () => {
  const text = (await ask('echo-event', { stream: true })).raw.toString();
  expect(text).not.toContain(CREDENTIAL);
  expect(text).not.toContain('10.1.2.3');
  expect(text).toContain('my key is [credential]');
  expect(text).toContain('Key [credential] failed at [address]');
});

test('usage that is not believed is settled as an estimate', async () => {
  await ask('absurd');
  await ask('untyped');
  const ofModel = (all: readonly Placed[], model: string): object | undefined =>
    all.findLast(({ event }) => event.type === 'request.settled' && event.model === model)?.event;
  const events = await relay.waitFor((all) => Boolean(ofModel(all, 'absurd') && ofModel(all, 'untyped')));
  const settled = (model: string): object | undefined => ofModel(events, model);
  expect(settled('untyped')).toMatchObject({ usage_source: 'provider', input_tokens: 5, output_tokens: 7 });
  expect(settled('absurd')).toMatchObject({ usage_source: 'implausible' });
});
