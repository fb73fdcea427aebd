import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { chat } from '../support/client.ts';
import { exchange } from '../support/exchange.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';
import { expectRefusal, onlyReply, rawRequest } from '../support/wire/raw-http.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Memory for one body of the largest size per key, two per account, three in total. */
let upstream: ScriptedUpstream;
let relay: TestRelay;
const arriving: Socket[] = [];

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({
    upstreams: [upstream],
    env: {
      MAX_BODY_MB: '1',
      MAX_BUFFERED_MB_PER_KEY: '1',
      MAX_BUFFERED_MB_PER_ACCOUNT: '2',
      MAX_BUFFERED_MB: '3',
    },
  });
});

afterAll(async () => {
  for (const socket of arriving) socket.destroy();
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const DECLARED = ['Content-Length: 1000000'];
const CHUNKED = ['Transfer-Encoding: chunked'];

/** Sends a head and the beginning of a body, and leaves the rest open. */
async function beginUpload(key: string, lines: readonly string[], begin = ''): Promise<Socket> {
  const socket = connect({ port: relay.port, host: '127.0.0.1' });
  arriving.push(socket);
  socket.on('error', () => {});
  await new Promise((resolve) => socket.once('connect', resolve));
  const head = rawRequest([`Authorization: Bearer ${key}`, ...lines, 'Expect: 100-continue'], { body: '' });
  socket.write(head);
  // The relay asks for the body once it has memory for it.
  await new Promise((resolve) => socket.once('data', resolve));
  if (begin !== '') await new Promise((resolve) => socket.write(begin, resolve));
  return socket;
}

const refusedBy = async (key: string, lines: readonly string[]): Promise<string> => {
  const bytes = await exchange(
    relay.port,
    rawRequest([`Authorization: Bearer ${key}`, ...lines, 'Expect: 100-continue'], { body: '' }),
  );
  expect(bytes.toString()).not.toContain('100 Continue');
  const reply = onlyReply(bytes);
  expect(reply.header('retry-after')).toBe('1');
  return `${reply.status} ${expectRefusal(reply, reply.status, codeIn(reply.body)).message}`;
};
const codeIn = (body: Buffer): string =>
  (JSON.parse(body.toString()) as { error: { code: string } }).error.code;

function leaveAll(): void {
  for (const socket of arriving.splice(0)) socket.destroy();
}

/** Calls until memory has returned: that a client has left is noticed a moment later. */
const works = (key: string): Promise<unknown> =>
  until(
    () => chat({ port: relay.port, key, body: { model: 'ok', messages: [], pad: 'x'.repeat(900_000) } }),
    ({ status }) => status === 200,
    'a call with a large body',
  );

test('bodies still being received are limited for key, account and process', async () => {
  const second = (await relay.createKey({ name: 'second' })).secret;
  const third = (await relay.createKey({ name: 'third' })).secret;
  await relay.createAccount('other');
  const [fourth, fifth] = await Promise.all(
    ['fourth', 'fifth'].map(async (name) => (await relay.createKey({ name, account: 'other' })).secret),
  );
  await beginUpload(relay.key, DECLARED);
  expect(await refusedBy(relay.key, DECLARED)).toMatch(/^429 .* of this key .* 1 MiB/);
  await beginUpload(second, DECLARED);
  expect(await refusedBy(third, DECLARED)).toMatch(/^429 .* of this account .* 2 MiB/);
  await beginUpload(fourth as string, DECLARED);
  expect(await refusedBy(fifth as string, DECLARED)).toMatch(/^503 /);
  leaveAll();
  await works(relay.key);
});

test('a chunked body is counted as it grows, and its memory returns when the client leaves', async () => {
  const first = await beginUpload(relay.key, CHUNKED, `96000\r\n${'x'.repeat(0x96000)}\r\n`);
  const refused = new Promise<string>((resolve) => {
    first.on('data', (bytes) => resolve(bytes.toString()));
  });
  const second = await beginUpload(relay.key, CHUNKED);
  second.write(`96000\r\n${'x'.repeat(0x96000)}\r\n`);
  const reply = await Promise.race([
    refused,
    new Promise<string>((resolve) => second.on('data', (bytes) => resolve(bytes.toString()))),
  ]);
  expect(reply).toContain('429');
  expect(reply).toContain('buffer_limit_exceeded');
  leaveAll();
  await works(relay.key);
});

test('concurrent requests count from the headers, and again when their clients have left', async () => {
  const { secret } = await relay.control(async (control, pepper) => {
    await control.createAccount('one');
    await control.definePlan('one', { concurrent_requests: 1 }, 'keep');
    await control.setPlan('one', 'one', 'keep');
    return control.createKey(pepper, { account: 'one', name: 'key', expiresAt: null });
  });
  await beginUpload(secret, ['Content-Length: 10000']);
  expect(await exchange(relay.port, rawRequest([`Authorization: Bearer ${secret}`]))).toSatisfy(
    (bytes: Buffer) => onlyReply(bytes).status === 429 && bytes.includes('1 are being received or running'),
  );
  leaveAll();
  await works(secret);
});

test('a reply that its client has not read keeps the slot and the memory of its call', async () => {
  const { secret } = await relay.control(async (control, pepper) => {
    await control.createAccount('slow');
    await control.definePlan('slow', { concurrent_requests: 1 }, 'keep');
    await control.setPlan('slow', 'slow', 'keep');
    return control.createKey(pepper, { account: 'slow', name: 'key', expiresAt: null });
  });
  const model = 's:tokens=1,pad=16MB';
  const socket = connect({ port: relay.port, host: '127.0.0.1' });
  socket.on('error', () => {});
  await new Promise((resolve) => socket.once('connect', resolve));
  socket.pause();
  socket.write(
    rawRequest([`Authorization: Bearer ${secret}`], { body: JSON.stringify({ model, messages: [] }) }),
  );
  const attempt = () => upstream.ledger.attempts.find((each) => each.model === model);
  await until(attempt, (seen) => seen?.doneSent === true && seen.endedAt !== null, 'the upstream reply');
  const settled = async (): Promise<unknown[]> =>
    (await relay.readLog()).flatMap(({ event }) =>
      event.type === 'request.settled' && event.model === model ? [event.end_reason, event.usage_source] : [],
    );
  const call = () => chat({ port: relay.port, key: secret, body: { model: 'ok', messages: [] } });
  expect([(await call()).status, await settled()]).toEqual([429, []]);
  socket.destroy();
  await until(call, ({ status }) => status === 200, 'a call once the client has left');
  expect(await settled()).toEqual(['client_disconnected', 'provider']);
});
