import { afterAll, beforeAll, expect, test } from 'vitest';
import { createLogger } from '#db/diagnostics/logger.ts';
import { readConfig } from '#server/process/config.ts';
import { type RunningServer, startServer } from '#server/process/server.ts';
import { openRequests } from '../support/faults.ts';
import { makePlace, openLog, type Place, until } from '../support/relay.ts';
import { isLast, openResponses, type ResponsesSocket } from '../support/responses-socket.ts';
import { spawnServer } from '../support/servers/server-process.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** WebSocket connections of a server that stops, and of one that is killed. */

let upstream: ScriptedUpstream;
let place: Place;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  place = await makePlace({ upstreams: [{ baseUrl: upstream.baseUrl, routes: ['/v1/responses'] }] });
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

const isStreaming = ({ sees }: ResponsesSocket): Promise<void> =>
  sees((events) => events.some(({ type }) => type.endsWith('.delta')));

test('a server that stops closes idle connections, and others when their responses have ended', async () => {
  const server = await start();
  await using idle = await openResponses({ port: server.port, key });
  await using busy = await openResponses({ port: server.port, key });
  busy.create({ model: 's:tokens=40,every=20ms', input: 'hi' });
  busy.create({ model: 's:tokens=2', input: 'waits' });
  await isStreaming(busy);
  const stopped = server.stop();
  expect(await idle.closed).toEqual({ code: 1012, reason: 'shutting_down' });
  expect(idle.events).toMatchObject([{ type: 'error', status: 503, error: { code: 'shutting_down' } }]);
  busy.create({ model: 's:tokens=2', input: 'comes too late' });
  expect(await busy.closed).toEqual({ code: 1012, reason: 'shutting_down' });
  expect(busy.events.filter(isLast).map(({ type }) => type)).toEqual([
    'error',
    'response.completed',
    'response.completed',
    'error',
  ]);
  await stopped;
});

test('a stop that is cut short ends responses with an error', async () => {
  const server = await start();
  await using client = await openResponses({ port: server.port, key });
  client.create({ model: 's:tokens=6000,every=10ms', input: 'hi' });
  await isStreaming(client);
  await server.stop({ cut: AbortSignal.abort() });
  expect(await client.closed).toMatchObject({ code: 1012 });
  expect(client.events.filter(isLast)).toMatchObject([
    { type: 'error', status: 503, error: { code: 'shutting_down' } },
    { type: 'error', status: 503, error: { code: 'shutting_down' } },
  ]);
});

test('responses of a killed server are abandoned, each once', async () => {
  const killed = await spawnServer(place.env);
  const client = await openResponses({ port: killed.port, key });
  for (const stream_id of ['a', 'b'])
    client.create({ model: 's:tokens=6000,every=10ms', input: 'hi', stream_id });
  await client.sees(
    (events) =>
      new Set(events.filter(({ type }) => type.endsWith('.delta')).map((each) => each.stream_id)).size === 2,
  );
  await killed.kill();
  await client.closed;
  const server = await start();
  if (!place.store) throw new Error('there is no database');
  const log = openLog(place.store);
  try {
    const events = await until(
      log.read,
      (all) => openRequests(all).length === 0,
      'the ends of the responses',
    );
    expect(events.filter(({ event }) => event.type === 'request.abandoned')).toHaveLength(2);
  } finally {
    await log.close();
    await server.stop();
  }
});
