import { Agent, type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readConfig } from '#server/process/config.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import { type RunningServer, startServer } from '#server/process/server.ts';
import { chat, type ChatReply } from '../support/client.ts';
import { makePlace, type Place, until } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** What a server that was asked to stop does for its clients. */

let upstream: ScriptedUpstream;
let place: Place;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  place = await makePlace({ upstreams: [upstream] });
});

afterAll(async () => {
  await place?.[Symbol.asyncDispose]();
  await upstream?.close();
});

async function start(): Promise<RunningServer & { port: number }> {
  const server = await startServer(readConfig(place.env), createLogger('silent'));
  key = server.firstKey?.secret ?? key;
  return { ...server, port: Number(new URL(server.baseUrl).port) };
}

const stream = (port: number, model: string, onHead?: () => void): Promise<ChatReply> =>
  chat({ port, key, body: { model, stream: true, messages: [] }, ...(onHead ? { onHead } : {}) });

/** A call on a connection that its agent keeps. */
function callOn(agent: Agent, port: number): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const sent = request({
      agent,
      port,
      method: 'POST',
      path: '/v1/chat/completions',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    });
    sent.once('error', reject);
    sent.once('response', (reply) => reply.resume().once('end', () => resolve(reply)));
    sent.end(JSON.stringify({ model: 'ok', messages: [] }));
  });
}

test('a lame duck is not ready, serves each call, closes its connection; a cut ends streams', async () => {
  const server = await start();
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  expect((await callOn(agent, server.port)).headers.connection).toBe('keep-alive');

  const head = Promise.withResolvers<void>();
  const running = stream(server.port, 's:tokens=6000,every=10ms', () => head.resolve());
  await head.promise;
  const cut = new AbortController();
  const stopped = server.stop({ lameDuckMs: 300_000, cut: cut.signal });
  const ready = await fetch(`http://127.0.0.1:${server.port}/readyz`);
  expect([ready.status, ready.headers.get('connection')]).toEqual([503, 'close']);

  const kept = await callOn(agent, server.port);
  expect([kept.statusCode, kept.headers.connection]).toEqual([200, 'close']);
  const fresh = await chat({ port: server.port, key, body: { model: 'ok', messages: [] } });
  expect([fresh.status, fresh.header('connection')]).toEqual([200, 'close']);

  cut.abort();
  const reply = await running;
  expect([reply.status, reply.sawDone]).toEqual([200, false]);
  expect(reply.body.toString()).toContain('"code":"shutting_down"');
  await stopped;
  agent.destroy();
});

test('a drain serves calls to their end, also one whose body is incomplete when it begins', async () => {
  const server = await start();
  const head = Promise.withResolvers<void>();
  const running = stream(server.port, 's:tokens=100,every=10ms', () => head.resolve());
  await head.promise;
  const body = JSON.stringify({ model: 'ok', messages: [] });
  const socket = connect(server.port, '127.0.0.1');
  let text = '';
  socket.on('data', (bytes: Buffer) => (text += bytes.toString()));
  const closed = new Promise((resolve) => socket.once('close', resolve));
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n` +
      `content-type: application/json\r\nexpect: 100-continue\r\ncontent-length: ${body.length}\r\n\r\n`,
  );
  // The server waits for the body.
  await until(
    () => text,
    (seen) => seen.includes('100 Continue'),
    'the server',
  );
  const stopped = server.stop();
  const refused = async (): Promise<boolean> =>
    fetch(`http://127.0.0.1:${server.port}/healthz`).then(
      () => false,
      () => true,
    );
  await until(refused, (is) => is, 'the listener');
  socket.write(body);
  await closed;
  expect(text).toMatch(/HTTP\/1\.1 200 OK\r\n/);
  expect(text).toMatch(/^connection: close\r$/im);
  expect(await running).toMatchObject({ status: 200, sawDone: true, finished: true });
  await stopped;
});

test('a drain serves connections that wait to be accepted, and those without a request', async () => {
  const server = await start();
  const calls = Array.from({ length: 20 }, () =>
    chat({ port: server.port, key, body: { model: 'ok', messages: [] } }),
  );
  // The kernel has established them; this process has not accepted one.
  await new Promise<void>((resolve) => process.nextTick(resolve));
  await server.stop();
  const replies = await Promise.all(calls);
  expect(replies.map(({ status, problem }) => problem ?? status)).toEqual(replies.map(() => 200));
});
