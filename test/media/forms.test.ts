import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request as httpRequest } from 'node:http';
import OpenAI, { toFile } from 'openai';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import { openRequests } from '../support/faults.ts';
import { FORM_TYPE, formOf } from '../support/wire/media.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';
import { type PlainUpstream, startPlainUpstream } from '../support/plain-upstream.ts';
import { declare } from '../support/upstream/upstreams-live.ts';

/** Forms stream through: less of each is held than the relay would have memory for. */

const MIB = 1024 * 1024;
const CENT = 10_000_000;
let first: PlainUpstream;
let second: PlainUpstream;
let relay: TestRelay;

beforeAll(async () => {
  first = await startPlainUpstream(() => ({ body: '{}' }));
  second = await startPlainUpstream(() => ({ body: '{}' }));
  const perKey = { MAX_BODY_MB: '2', MAX_BUFFERED_MB_PER_KEY: '3' };
  relay = await startRelay({ env: { ...perKey, MAX_BUFFERED_MB_PER_ACCOUNT: '3', MAX_BUFFERED_MB: '4' } });
  const routes = ['/v1/audio/transcriptions', '/v1/images/edits', '/v1/images/variations'] as const;
  await declare(relay, {
    upstreams: {
      first: { base_url: `${first.url}/v1`, models: ['m', 'painter'], routes: [...routes] },
      second: { base_url: `${second.url}/v1`, models: ['unused'], routes: [...routes] },
    },
    models: {
      twice: {
        targets: [
          { upstream: 'first', order: 0 },
          { upstream: 'second', order: 1 },
        ],
      },
    },
  });
  await relay.control((control) => control.setPrice('painter', { base: { image: 4 * CENT } }));
});
afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await first?.[Symbol.asyncDispose]();
  await second?.[Symbol.asyncDispose]();
});
beforeEach(() => {
  first.requests.length = second.requests.length = 0;
  first.reply = second.reply = () => ({ body: '{"text":"x","usage":{"type":"duration","seconds":1}}' });
});

async function lastSettled(): Promise<EventOf<'request.settled'>> {
  const log = await relay.waitFor((events) => openRequests(events).length === 0);
  const last = log.findLast(({ event }) => event.type === 'request.settled')?.event;
  if (last?.type !== 'request.settled') throw new Error('nothing was settled');
  return last;
}

type Reply = { status: number; body: { error?: { code: string; message: string } } };
type Sending = { request: ClientRequest; reply: Promise<Reply> };

/** Begins a call whose form is written by the test. */
function send(length: number | null): Sending {
  const request = httpRequest({
    ...{ port: relay.port, method: 'POST', path: '/v1/audio/transcriptions' },
    headers: {
      authorization: `Bearer ${relay.key}`,
      'content-type': FORM_TYPE,
      ...(length === null ? {} : { 'content-length': length }),
    },
  });
  const reply = (async () => {
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    const chunks = await Array.fromAsync(response as AsyncIterable<Buffer>);
    const body = JSON.parse(Buffer.concat(chunks).toString()) as Reply['body'];
    return { status: response.statusCode ?? 0, body };
  })();
  reply.catch(() => {});
  return { request, reply };
}
/** Line ends all over it look like beginnings of delimiters. */
const fileOf = (bytes: number): Buffer => Buffer.alloc(bytes, '\x07tide\r\n--\r\n');

test.each([
  ['its length stated', true],
  ['chunked', false],
] as const)(
  'a form above all memory reaches the upstream while it is being sent, %s',
  async (_, isStated) => {
    const form = formOf([
      ['model', 'm'],
      ['file', fileOf(8 * MIB)],
      ['language', 'en'],
    ]);
    const { request, reply } = send(isStated ? form.length : null);
    request.write(form.subarray(0, 6 * MIB));
    await until(
      () => first.requests[0]?.received ?? 0,
      (received) => received > 3 * MIB,
      'the upload',
    );
    expect(first.requests[0]?.isComplete).toBe(false);
    request.end(form.subarray(6 * MIB));
    expect((await reply).status).toBe(200);
    expect(first.requests[0]?.body.equals(form)).toBe(true);
    expect(first.requests[0]?.headers['content-length']).toBe(isStated ? String(form.length) : undefined);
    expect(await lastSettled()).toMatchObject({
      end_reason: 'completed',
      usage_details: { media_ms: 1_000 },
    });
  },
);

test('a form whose model comes after a file that is too large to be held is a 400 that says so', async () => {
  const form = formOf([
    ['file', fileOf(4 * MIB)],
    ['model', 'm'],
  ]);
  const { request, reply } = send(form.length);
  request.end(form);
  const { status, body } = await reply;
  expect([status, body.error?.code]).toEqual([400, 'invalid_form']);
  expect(body.error?.message).toMatch(/Send it before the file/);
  expect(first.requests).toEqual([]);
});

test('a second model behind the file ends the upload: the upstream never has a whole form', async () => {
  const form = formOf([
    ['model', 'm'],
    ['file', fileOf(8 * MIB)],
    ['model', 'painter'],
  ]);
  const { request, reply } = send(form.length);
  request.end(form);
  const { status, body } = await reply;
  expect([status, body.error?.code]).toEqual([400, 'duplicate_parameter']);
  expect(first.requests.map(({ isComplete }) => isComplete)).toEqual([false]);
  expect(await lastSettled()).toMatchObject({ end_reason: 'upstream_rejected', attempt_count: 1 });
});

test('a client that leaves in the middle of its upload ends the call, and its upstream request', async () => {
  const form = formOf([
    ['model', 'm'],
    ['file', fileOf(8 * MIB)],
  ]);
  const { request } = send(form.length);
  request.on('error', () => {});
  request.write(form.subarray(0, 3 * MIB));
  await until(
    () => first.requests[0]?.received ?? 0,
    (received) => received > MIB,
    'the upload',
  );
  request.destroy();
  expect(await lastSettled()).toMatchObject({ end_reason: 'client_disconnected', status: 499 });
  expect(first.requests[0]?.isComplete).toBe(false);
});

test('an upstream that rejects a form before it has all of it is reported at once', async () => {
  const form = formOf([
    ['model', 'm'],
    ['file', fileOf(8 * MIB)],
  ]);
  const { request, reply } = send(form.length);
  request.on('error', () => {});
  request.write(form.subarray(0, 3 * MIB));
  await until(
    () => first.requests[0]?.received ?? 0,
    (received) => received > MIB,
    'the upload',
  );
  const early = first.earlyReply(413, '{"error":{"message":"too long"}}');
  expect(early).toBe(true);
  expect((await reply).status).toBe(413);
  request.destroy();
  expect(await lastSettled()).toMatchObject({ end_reason: 'upstream_rejected', status: 413 });
});

test('a form that was received whole goes to the next upstream; one that streamed does not', async () => {
  first.reply = () => ({ status: 500, body: '{}' });
  const small = formOf([
    ['model', 'twice'],
    ['file', fileOf(64 * 1024)],
  ]);
  const one = send(small.length);
  one.request.end(small);
  expect((await one.reply).status).toBe(200);
  expect(await lastSettled()).toMatchObject({ attempt_count: 2, upstream: 'second' });
  expect(second.requests[0]?.body.equals(small)).toBe(true);

  const large = formOf([
    ['model', 'twice'],
    ['file', fileOf(8 * MIB)],
  ]);
  const two = send(large.length);
  two.request.end(large);
  expect((await two.reply).status).toBe(502);
  expect(await lastSettled()).toMatchObject({ attempt_count: 1, upstream: 'first' });
});

test('edits and variations of images of the OpenAI client are charged by the image', async () => {
  const client = new OpenAI({ baseURL: relay.baseUrl, apiKey: relay.key, maxRetries: 0 });
  const b64 = { b64_json: 'aGVsbG8=' };
  first.reply = () => ({ body: JSON.stringify({ created: 1, data: [b64, b64] }) });
  const image = await toFile(Buffer.alloc(2_000), 'tide.png', { type: 'image/png' });
  const { data } = await client.images.edit({ model: 'painter', image, prompt: 'ebb', n: 2 });
  expect(data).toEqual([b64, b64]);
  expect(await lastSettled()).toMatchObject({
    ...{ route: '/v1/images/edits', usage_details: { images: 2 }, cost_nanousd: 8 * CENT },
  });
  await client.images.createVariation({ model: 'painter', image, n: 2 });
  expect(await lastSettled()).toMatchObject({ route: '/v1/images/variations', cost_nanousd: 8 * CENT });
  const error = await client.images
    .edit({ model: 'painter', image, prompt: 'ebb', stream: true })
    .catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ status: 400, code: 'invalid_value', param: 'stream' });
});
