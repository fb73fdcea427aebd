import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { exchange } from '../support/exchange.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { CHAT, expectRefusal, HELLO, onlyReply, rawRequest } from '../support/wire/raw-http.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

let upstream: ScriptedUpstream;
let relay: TestRelay;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({ upstreams: [upstream], env: { MAX_BODY_MB: '1' } });
  key = `Authorization: Bearer ${relay.key}`;
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

/** Sends everything before it reads anything, as simple clients and proxies do; then returns the reply. */
function sendThenRead(request: Buffer): Promise<Buffer> {
  return new Promise((resolve) => {
    const socket = connect({ port: relay.port, host: '127.0.0.1' });
    const received: Buffer[] = [];
    socket.pause();
    socket.write(request, () => socket.resume());
    socket.on('data', (bytes: Buffer) => received.push(bytes));
    socket.on('error', () => {});
    socket.on('close', () => resolve(Buffer.concat(received)));
  });
}

describe('a refusal reaches a client that is still sending, and whose connection closes', () => {
  const start10 = `POST ${CHAT} HTTP/1.0`;
  test.each([
    ['HTTP/1.1, wrong key', 401, () => ['Authorization: Bearer x', 'Connection: close'], undefined],
    ['HTTP/1.1, body too large', 413, () => [key, 'Connection: close'], undefined],
    ['HTTP/1.0, wrong key', 401, () => ['Authorization: Bearer x'], start10],
    ['HTTP/1.0, body too large', 413, () => [key], start10],
  ] as const)('%s: %i', async (_name, status, lines, start) => {
    for (const size of [5_000_000, 20_000_000]) {
      const more = start === undefined ? {} : { start };
      const bytes = await sendThenRead(rawRequest(lines(), { ...more, body: Buffer.alloc(size, 'x') }));
      const reply = onlyReply(bytes);
      expectRefusal(reply, status, status === 401 ? 'invalid_api_key' : 'request_too_large');
    }
  });
});

describe('headers', () => {
  test.each([
    ['two Host headers', ['Host: a', 'Host: a']],
    ['two different Host headers', ['Host: a', 'hOST: b']],
  ])('%s are a 400', async (_name, lines) => {
    expectRefusal(onlyReply(await exchange(relay.port, rawRequest([key, ...lines]))), 400, 'bad_request');
  });

  test('of more lines than any client sends are a 431', async () => {
    const many = Array.from({ length: 300 }, (_, index) => `x-${index}: 1`);
    const reply = onlyReply(await exchange(relay.port, rawRequest([key, ...many])));
    expectRefusal(reply, 431, 'headers_too_large');
    const some = many.slice(0, 200);
    expect(onlyReply(await exchange(relay.port, rawRequest([key, ...some], { body: HELLO }))).status).toBe(
      200,
    );
  });
});
