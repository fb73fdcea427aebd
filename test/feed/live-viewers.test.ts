import { createConnection } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { heartbeat } from '#db/instances/instance.ts';
import { VIEWER_BUFFER_BYTES_MAX, VIEWERS_PER_KEY_MAX } from '#server/feed/bounds.ts';
import type { Control } from '#server/control/control.ts';
import { createSecret } from '#server/secrets/key-secret.ts';
import { chat } from '../support/client.ts';
import { type LiveViewer, lookOn, refusedLook } from '../support/live.ts';
import { accepted, openLivingWriter, settled } from '../support/log/log-writer.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Who may look on, for how long, and what a viewer may cost. */

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

const look = (options: Partial<Parameters<typeof lookOn>[0]> = {}): Promise<LiveViewer> =>
  lookOn({ port: relay.port, key: relay.key, ...options });
const refused = async (options: Partial<Parameters<typeof lookOn>[0]>) => {
  const { status, code } = await refusedLook({ port: relay.port, ...options });
  return `${status} ${code}`;
};
const restrict = (id: string, set: Parameters<Control['restrictKey']>[1]['set']) => (control: Control) =>
  control.restrictKey(id, { set, drop: [], clear: false, expiresAt: undefined, windows: 'keep' });

describe('who may look on', () => {
  test('nobody without a good key, wherever it stands', async () => {
    const unknown = createSecret('00000000');
    expect(await refused({})).toBe('401 missing_api_key');
    expect(await refused({ headers: { cookie: `key=${relay.key}; __Host-session=anything` } })).toBe(
      '401 missing_api_key',
    );
    expect(await refused({ query: `key=${relay.key}` })).toBe('401 missing_api_key');
    expect(await refused({ headers: { 'x-api-key': relay.key } })).toBe('401 missing_api_key');
    expect(await refused({ key: unknown })).toBe('401 invalid_api_key');
    expect(await refused({ key: `${relay.key}x` })).toBe('401 invalid_api_key');
    expect(await refused({ protocols: ['daybook.v1', unknown] })).toBe('401 invalid_api_key');
    expect(await refused({ key: relay.key, protocols: ['daybook.v1', relay.key] })).toBe(
      '401 invalid_api_key',
    );
  });

  test('a page with the key among its subprotocols, which is never told back', async () => {
    await using viewer = await lookOn({ port: relay.port, protocols: ['daybook.v1', relay.key] });
    expect(viewer.socket.protocol).toBe('daybook.v1');
  });

  test('no page of another origin than the key permits, and a page of that one', async () => {
    const { id, secret } = await relay.createKey();
    await relay.control(restrict(id, { origins: ['https://app.example.com'] }));
    expect(await refused({ key: secret, origin: 'https://evil.example.net' })).toBe('403 origin_not_allowed');
    expect(await refused({ key: secret, origin: 'null' })).toBe('403 origin_not_allowed');
    expect(await refused({ key: secret })).toBe('403 origin_not_allowed');
    // The header of an old version of the protocol stands for nothing.
    expect(
      await refused({ key: secret, headers: { 'sec-websocket-origin': 'https://app.example.com' } }),
    ).toBe('403 origin_not_allowed');
    await using viewer = await look({ key: secret, origin: 'https://app.example.com' });
    expect(viewer.frames('hello')).toHaveLength(1);
  });

  test('no key that may not use the route, from that network or at all', async () => {
    const { id, secret } = await relay.createKey();
    await relay.control(restrict(id, { routes: ['/v1/chat/completions'] }));
    expect(await refused({ key: secret })).toBe('403 route_not_permitted');
    await relay.control(restrict(id, { routes: ['/v1/live'], networks: ['192.0.2.0/24'] }));
    expect(await refused({ key: secret })).toBe('403 network_not_allowed');
    await relay.control((control) => control.revokeKey(id));
    expect(await refused({ key: secret })).toBe('401 api_key_revoked');
  });

  test('nobody who asks for what there is not', async () => {
    for (const query of [
      'after=-1',
      'after=1.5',
      'outcome=good',
      'nothing=1',
      'model=a&model=b',
      'status=7',
    ]) {
      expect(await refused({ key: relay.key, query })).toBe('400 invalid_value');
    }
  });

  test(`at most ${VIEWERS_PER_KEY_MAX} of one key at once, and again when one has left`, async () => {
    const { secret } = await relay.createKey();
    const viewers = await Promise.all(
      Array.from({ length: VIEWERS_PER_KEY_MAX }, () => look({ key: secret })),
    );
    expect(await refused({ key: secret })).toBe('429 rate_limit_exceeded');
    await viewers[0]?.leave();
    const another = await until(
      () => look({ key: secret }).catch(() => null),
      (viewer) => viewer !== null,
      'a place',
    );
    await another?.leave();
    await Promise.all(viewers.slice(1).map((viewer) => viewer.leave()));
  });
});

describe('what is no viewer', () => {
  test('is told to be one, or that there is nothing', async () => {
    const address = `http://127.0.0.1:${relay.port}/v1/live`;
    const plain = await fetch(address);
    expect([
      plain.status,
      plain.headers.get('upgrade'),
      ((await plain.json()) as { error: { code: string } }).error.code,
    ]).toEqual([426, 'websocket', 'upgrade_required']);
    expect((await fetch(address, { method: 'POST' })).status).toBe(405);
    expect(
      await say('GET /v1/elsewhere HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'),
    ).toContain('404 Not Found');
    const half = [
      'GET /v1/live HTTP/1.1',
      'Host: x',
      `Authorization: Bearer ${relay.key}`,
      'Connection: Upgrade',
      'Upgrade: websocket',
      '',
    ].join('\r\n');
    expect(await say(`${half}\r\n`)).toContain('"code":"bad_request"');
    expect(
      await say(`${half}Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`),
    ).toContain('"code":"bad_request"');
  });

  test('may ask for HTTP/2 and is answered in HTTP/1.1, as clients in Java do with every call', async () => {
    const headers = {
      connection: 'Upgrade, HTTP2-Settings',
      upgrade: 'h2c',
      'http2-settings': 'AAMAAABkAAQCAAAAAAIAAAAA',
    };
    const reply = await chat({
      port: relay.port,
      key: relay.key,
      headers,
      body: { model: 'ok', stream: true, messages: [] },
    });
    expect([reply.status, reply.sawDone]).toEqual([200, true]);
  });
});

/** What comes back on a bare connection until it is closed, or for a moment. */
function say(text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = createConnection(relay.port, '127.0.0.1', () => socket.write(text));
    let heard = '';
    socket.on('data', (bytes) => {
      heard += bytes.toString();
      if (heard.includes('}}') || heard.includes('request_id')) socket.destroy();
    });
    socket.on('close', () => resolve(heard));
    socket.on('error', reject);
  });
}

describe('who may not look on any more', () => {
  type Withdrawal = [
    name: string,
    change: (control: Control, id: string, pepper: Buffer) => Promise<unknown>,
    code: number,
    reason: string,
  ];
  const withdrawals: Withdrawal[] = [
    ['its key was revoked', (control, id) => control.revokeKey(id), 4401, 'api_key_revoked'],
    [
      'its secret was replaced',
      (control, id, pepper) => control.rotateKey(pepper, id, 0),
      4401,
      'invalid_api_key',
    ],
    [
      'its key may not use the route',
      (control, id) => restrict(id, { routes: ['/v1/models'] })(control),
      4403,
      'route_not_permitted',
    ],
    [
      'its key is for another network',
      (control, id) => restrict(id, { networks: ['192.0.2.0/24'] })(control),
      4403,
      'network_not_allowed',
    ],
    ['its account is suspended', (control) => control.suspendAccount('left'), 4403, 'account_disabled'],
  ];

  test.each(withdrawals)('because %s is closed', async (_name, change, code, reason) => {
    const name = reason === 'account_disabled' ? 'left' : `left-${reason}`;
    await relay.createAccount(name);
    const { id, secret } = await relay.createKey({ account: name });
    await using viewer = await look({ key: secret });
    await relay.control((control, pepper) => change(control, id, pepper));
    expect(await viewer.closed).toEqual({ code, reason });
  });

  test('because its key has expired is closed, though no event says so', async () => {
    // Long enough to connect on a busy machine.
    const { secret } = await relay.createKey({ expiresAt: new Date(Date.now() + 5_000) });
    await using viewer = await look({ key: secret });
    expect(await viewer.closed).toEqual({ code: 4401, reason: 'api_key_expired' });
  });

  test('of more than its own key gets a gap, and from then on sees its own key only', async () => {
    const { id, secret } = await relay.createKey();
    await relay.control(restrict(id, { reads: 'account' }));
    await using viewer = await look({ key: secret });
    await relay.control(restrict(id, { reads: 'key' }));
    await viewer.sees(({ frames }) => frames('gap').length === 1);
    const gap = viewer.frames('gap')[0]?.position ?? 0;
    for (const key of [relay.key, secret])
      await chat({ port: relay.port, key, body: { model: 'ok', messages: [] } });
    await viewer.sees(({ frames }) => frames('settled').some(({ key }) => key === id));
    expect(viewer.frames('settled').filter(({ position, key }) => position > gap && key !== id)).toEqual([]);
  });
});

describe('what a viewer may cost', () => {
  /** More than the kernel's own buffers of a connection take. */
  const BEYOND_BYTES = 16 * 1024 * 1024;

  test('a viewer that stops reading is bounded, delays no other, and gets a gap later', async () => {
    const { id, secret } = await relay.createKey();
    const account =
      (await relay.readLog()).flatMap(({ event }) =>
        event.type === 'key.created' && event.key === id ? [event.account] : [],
      )[0] ?? '';
    await using stuck = await look({ key: secret });
    await using reading = await look({ key: secret });
    stuck.socket.pause();
    await using writer = await openLivingWriter(relay.store);
    const model = 'm'.repeat(256);
    let position = 0;
    while (reading.bytes < BEYOND_BYTES) {
      const events = Array.from({ length: 1_000 }, () => accepted({ account, key: id, model })).flatMap(
        (begun) => [begun, settled(begun)],
      );
      position = await writer.append(events);
      await reading.sees((viewer) => viewer.position >= position);
      // Silent instances are declared dead.
      await heartbeat(writer.client, writer.instance, null);
    }
    const all = reading.frames('started').length;
    expect(all).toBe(reading.frames('settled').length);
    stuck.socket.resume();
    await stuck.sees(({ frames }) => frames('gap').length > 0);
    // The kernel's buffers, our own, and the message that filled it.
    expect(stuck.bytes).toBeLessThan(reading.bytes - VIEWER_BUFFER_BYTES_MAX);
    expect(stuck.frames('started').length).toBeLessThan(all);
    // It goes on behind the gap.
    const begun = accepted({ account, key: id, model });
    position = await writer.append([begun, settled(begun)]);
    await stuck.sees((viewer) => viewer.position >= position);
    expect(stuck.frames('settled').at(-1)?.request).toBe(begun.request);
    expect(reading.frames('gap')).toEqual([]);
  });

  test('one that floods the feed with pings gets one pong for all that came at once', async () => {
    await using flooding = await look();
    const pongs: string[] = [];
    flooding.socket.on('pong', (data: Buffer) => pongs.push(data.toString()));
    const last = 10_000;
    for (let ping = 0; ping <= last; ping++) flooding.socket.ping(String(ping));
    await until(
      () => pongs.at(-1),
      (data) => data === String(last),
      'the pong of the last ping',
    );
    expect(pongs.length).toBeLessThan(last / 2);
  });

  test('one that says anything is shown the door', async () => {
    await using talking = await look();
    talking.socket.send('hello');
    expect(await talking.closed).toMatchObject({ code: 1003 });
    await using shouting = await look();
    shouting.socket.on('error', () => undefined);
    shouting.socket.send('x'.repeat(100_000));
    expect((await shouting.closed).code).toBe(1009);
  });
});

test('a server that ends sends its viewers elsewhere, and takes no more', async () => {
  await using ending = await startRelay({ upstreams: [upstream] });
  await using viewer = await lookOn({ port: ending.port, key: ending.key });
  const running = chat({
    port: ending.port,
    key: ending.key,
    body: { model: 's:tokens=30,every=20ms', stream: true, messages: [] },
  });
  await viewer.sees(({ frames }) => frames('started').length === 1);
  const stopped = ending.stop();
  expect((await viewer.closed).code).toBe(1001);
  expect((await running).sawDone).toBe(true);
  await stopped;
});
