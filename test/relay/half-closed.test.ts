import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EventOf, Placed } from '#db/events/events.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { onlyReply, rawRequest } from '../support/wire/raw-http.ts';

/** Clients that shut down their sending side with the request, as `nc -N` does, and wait for the reply. */

let upstream: ScriptedUpstream;
let relay: TestRelay;

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({ upstreams: [upstream] });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

/** Sends bytes and a FIN, and returns all bytes until the server closes the connection. */
function sendAndShutDown(bytes: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const received: Buffer[] = [];
    const socket = connect({ port: relay.port, host: '127.0.0.1', allowHalfOpen: true }, () =>
      socket.end(bytes),
    );
    socket.on('data', (part: Buffer) => received.push(part));
    socket.on('error', reject);
    socket.on('end', () => resolve(Buffer.concat(received)));
  });
}

const chatCall = (script: string, stream: boolean, start?: string): Buffer =>
  rawRequest([`Authorization: Bearer ${relay.key}`], {
    ...(start === undefined ? {} : { start }),
    body: JSON.stringify({ model: `s:${script}`, messages: [], stream }),
  });

describe('a half-closed client gets its reply', () => {
  test.each([
    ['JSON', 'tokens=3', false],
    ['JSON of a slow upstream', 'tokens=3,head=1s', false],
    ['SSE', 'tokens=3,head=200ms,every=20ms', true],
  ] as const)('%s', async (_, script, stream) => {
    const reply = onlyReply(await sendAndShutDown(chatCall(script, stream)));
    expect([reply.status, reply.header('connection')]).toEqual([200, 'close']);
    expect(reply.body.toString()).toContain('tok2');
  });

  test('a rejection', async () => {
    const reply = onlyReply(await sendAndShutDown(rawRequest(['Authorization: Bearer wrong'])));
    expect(reply.status).toBe(401);
  });

  test('of another route', async () => {
    const bytes = rawRequest([], { start: 'GET /healthz HTTP/1.1', body: '' });
    expect(onlyReply(await sendAndShutDown(bytes), 'GET').status).toBe(200);
  });
});

test('a half-closed client of HTTP/1.0 counts as disconnected', async () => {
  const start = 'POST /v1/chat/completions HTTP/1.0';
  const model = 'tokens=3,end=hang@head';
  expect(await sendAndShutDown(chatCall(model, false, start))).toHaveLength(0);
  const endings = (log: readonly Placed[]): EventOf<'request.settled'>[] => {
    const accepted = log.flatMap(({ event }) =>
      event.type === 'request.accepted' && event.model === `s:${model}` ? [event.request] : [],
    );
    return log.flatMap(({ event }) =>
      event.type === 'request.settled' && accepted.includes(event.request) ? [event] : [],
    );
  };
  const events = await relay.waitFor((log) => endings(log).length > 0);
  expect(endings(events)).toMatchObject([{ end_reason: 'client_disconnected' }]);
});
