import type { IncomingMessage } from 'node:http';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { readConfig } from '#server/process/config.ts';
import { type RunningServer, startServer } from '#server/process/server.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import { canRunFront, type Front, startFront, textOf } from '../support/deploy/front.ts';
import { AS_OPERATOR } from '../support/servers/operator.ts';
import { type NameServer, startNameServer } from '../support/servers/name-server.ts';
import { changeControl, makePlace, type Place, openLog, until } from '../support/relay.ts';
import { refusedPort, type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/**
 * deploy/haproxy.cfg before two real servers, found by name as in docker-compose.yml. Left out where
 * no HAProxy is installed, since npm has none: on Debian `apt-get install haproxy` brings it.
 */

const ADDRESSES = ['127.0.0.2', '127.0.0.3'] as const;
const CHAT = '/v1/chat/completions';

let upstream: ScriptedUpstream;
let place: Place;
let key: string;
let port: number;
let names: NameServer;
let front: Front;
const servers = new Map<string, RunningServer>();

async function start(address: string): Promise<RunningServer> {
  const own = { HOST: address, PORT: String(port), TRUSTED_PROXIES: '127.0.0.1' };
  const server = await startServer(readConfig({ ...place.env, ...own }), createLogger('silent'));
  servers.set(address, server);
  return server;
}

const ask = (
  model: string,
  more: object = {},
): { method: string; path: string; headers: Record<string, string>; body: string } => ({
  method: 'POST',
  path: CHAT,
  headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
  body: JSON.stringify({ model, messages: [{ role: 'user', content: 'hi' }], ...more }),
});

/** The instances that answer several requests made at once, which go to whichever server has least to do. */
async function instances(): Promise<number[]> {
  const answers = await Promise.all(
    Array.from({ length: 6 }, async () => {
      const reply = await front.send({ path: '/readyz', headers: AS_OPERATOR });
      return { status: reply.statusCode, text: await textOf(reply) };
    }),
  );
  const ready = answers.filter(({ status }) => status === 200);
  return [...new Set(ready.map(({ text }) => (JSON.parse(text) as { instance: number }).instance))];
}

const found = (count: number): Promise<unknown> =>
  until(instances, ({ length }) => length === count, `${count} servers behind the front`);

describe.skipIf(!canRunFront)('the front', () => {
  beforeAll(async () => {
    upstream = await startUpstream();
    place = await makePlace({ upstreams: [upstream] });
    port = await refusedPort();
    const first = await start(ADDRESSES[0]);
    key = first.firstKey?.secret ?? '';
    await start(ADDRESSES[1]);
    names = await startNameServer([ADDRESSES[0]]);
    front = await startFront(place.dataDir, names.port, port);
  });

  afterAll(async () => {
    await front[Symbol.asyncDispose]();
    await names[Symbol.asyncDispose]();
    await Promise.all([...servers.values()].map((server) => server.stop()));
    await place[Symbol.asyncDispose]();
    await upstream.close();
  });

  beforeEach(async () => {
    names.addresses = [...ADDRESSES];
    for (const address of ADDRESSES) if (!servers.has(address)) await start(address);
    await found(2);
  });

  test('finds servers that come and go by their common name, without a restart', async () => {
    names.addresses = [ADDRESSES[1]];
    await found(1);
    names.addresses = [...ADDRESSES];
    await found(2);
    expect((await fetch(front.healthUrl)).status).toBe(200);
  });

  test('passes on each piece of a streamed reply before the next one is there', async () => {
    const reply = await front.send(ask('s:tokens=2,end=hang@2', { stream: true }));
    expect(reply.headers['content-type']).toMatch(/^text\/event-stream/);
    let text = '';
    for await (const bytes of reply) {
      text += String(bytes);
      // The provider is silent from here on, and the call runs.
      if (text.includes('tok1')) break;
    }
    expect(text).not.toContain('[DONE]');
  });

  test('lets the servers know who leaves, also while nothing of the reply has come', async () => {
    const leaving = new AbortController();
    const call = front
      .send({ ...ask('s:head=60s', { user: 'leaver' }), signal: leaving.signal })
      .catch(() => null);
    await until(
      () => upstream.attemptsOf('leaver').length,
      (count) => count === 1,
      'the call at the provider',
    );
    leaving.abort();
    await call;
    await until(
      () => upstream.attemptsOf('leaver')[0]?.ended,
      (ended) => ended === 'client_closed',
      'the end of the call at the provider',
    );
    expect(upstream.attemptsOf('leaver')).toHaveLength(1);
  });

  test('tells where a call comes from, whatever the call says of itself', async () => {
    const restricted = await changeControl(place.store!, place.dataDir, async (control, pepper) => {
      const created = await control.createKey(pepper, {
        account: 'first',
        name: 'by address',
        expiresAt: null,
      });
      await control.restrictKey(created.id, {
        set: { networks: ['127.0.0.9', '203.0.113.0/24'] },
        drop: [],
        clear: false,
        expiresAt: undefined,
        windows: 'keep',
      });
      return created.secret;
    });
    const from = async (
      address: string,
      headers: Record<string, string> = {},
    ): Promise<number | undefined> => {
      const reply = await front.send({
        path: '/v1/models',
        from: address,
        headers: { authorization: `Bearer ${restricted}`, ...headers },
      });
      await textOf(reply);
      return reply.statusCode;
    };
    await until(
      () => from('127.0.0.9'),
      (status) => status === 200,
      'the permitted address',
    );
    expect(await from('127.0.0.8')).toBe(403);
    expect(await from('127.0.0.8', { 'x-forwarded-for': '203.0.113.5' })).toBe(403);
  });

  test('takes a WebSocket through', async () => {
    const socket = new WebSocket(`wss://127.0.0.1:${front.port}/v1/live`, {
      rejectUnauthorized: false,
      headers: { authorization: `Bearer ${key}` },
    });
    const first = await new Promise<string>((resolve, reject) => {
      socket.once('message', (data: Buffer) => resolve(data.toString()));
      socket.once('error', reject);
    });
    expect(JSON.parse(first)).toMatchObject({ frames: [{ type: 'hello' }] });
    socket.terminate();
  });

  test('takes large bodies and headers as servers do', async () => {
    const large = await front.send(ask('ok', { padding: 'x'.repeat(8 * 1024 ** 2) }));
    expect([large.statusCode, (await textOf(large)).includes('tok0')]).toEqual([200, true]);
    const headers = { ...ask('ok').headers, 'x-long': 'x'.repeat(30_000) };
    const long = await front.send({ ...ask('ok'), headers });
    expect([long.statusCode, (await textOf(long)).includes('tok0')]).toEqual([200, true]);
  });

  test('a server that shuts down loses no call: running replies finish, new calls go to others', async () => {
    const running: IncomingMessage[] = [];
    for (let count = 0; count < 4; count += 1)
      running.push(await front.send(ask('s:tokens=20,every=50ms', { stream: true })));
    const texts = running.map(textOf);
    const ending = servers.get(ADDRESSES[0]);
    servers.delete(ADDRESSES[0]);
    const stopped = ending?.stop();
    for (let count = 0; count < 20; count += 1) {
      const reply = await front.send(ask('ok'));
      expect([reply.statusCode, (await textOf(reply)).includes('tok0')]).toEqual([200, true]);
    }
    for (const text of await Promise.all(texts)) expect(text).toContain('[DONE]');
    await stopped;
  });

  test('where no server takes calls it says so in the words of Daybook', async () => {
    for (const [address, server] of servers) {
      servers.delete(address);
      await server.stop();
    }
    const refusal = await until(
      async () => {
        const reply = await front.send(ask('ok'));
        return { status: reply.statusCode, headers: reply.headers, text: await textOf(reply) };
      },
      ({ status }) => status === 503,
      'the refusal',
    );
    const { error, request_id: id } = JSON.parse(refusal.text) as { error: object; request_id: string };
    expect(error).toMatchObject({ type: 'server_error', code: 'relay_overloaded' });
    expect(refusal.headers).toMatchObject({
      'content-type': 'application/json',
      'retry-after': '1',
      'x-request-id': id,
    });
  });

  test('repeats no call, and keeps no address in its log', async () => {
    const events = openLog(place.store!);
    const log = await events.read();
    await events.close();
    const accepted = log.filter(({ event }) => event.type === 'request.accepted').length;
    expect(upstream.ledger.attempts.length).toBe(accepted);
    expect(front.output()).not.toMatch(/127\.0\.0\.[189]\b/);
  });
});
