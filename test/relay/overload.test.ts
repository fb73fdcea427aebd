import { connect } from 'node:net';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { OVERLOAD_DELAY_MS } from '#server/relay/bounds.ts';
import { startRelay } from '../support/relay.ts';
import { startUpstream } from '../support/upstream/upstream.ts';
import { onlyReply, rawRequest } from '../support/wire/raw-http.ts';

/** Stops this process, which is the server's, for so long. */
const freeze = (ms: number): unknown => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

test('an event loop that is late refuses new calls, before peers declare the process dead', async () => {
  await using upstream = await startUpstream();
  await using relay = await startRelay({ upstreams: [upstream] });
  const body = JSON.stringify({ model: 's:tokens=1', messages: [] });
  const bytes = rawRequest([`Authorization: Bearer ${relay.key}`, 'Connection: close'], { body });
  const call = async (before: () => unknown) => {
    const socket = connect({ port: relay.port, host: '127.0.0.1' });
    await once(socket, 'connect');
    const parts: Buffer[] = [];
    socket.on('data', (part: Buffer) => parts.push(part));
    // From here the event loop runs its timers before it reads from sockets.
    await new Promise((resolve) => setImmediate(resolve));
    socket.write(bytes);
    before();
    await once(socket, 'close');
    return onlyReply(Buffer.concat(parts));
  };
  const refused = await call(() => freeze(OVERLOAD_DELAY_MS + 1_000));
  expect([refused.status, refused.header('retry-after')]).toEqual([503, '1']);
  expect(refused.body.toString()).toContain('relay_overloaded');
  await expect.poll(async () => (await call(() => {})).status).toBe(200);
});
