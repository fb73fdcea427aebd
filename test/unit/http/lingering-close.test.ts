import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { endLingering } from '#server/http/lingering-close.ts';

const IDLE_MS = 50;

test('a lingering close does not cut a client whose bytes arrived while the process was paused', async () => {
  const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect({
    port: (server.address() as AddressInfo).port,
    host: '127.0.0.1',
    allowHalfOpen: true,
  });
  try {
    const [[socket]] = await Promise.all([once(server, 'connection'), once(client, 'connect')]);
    endLingering(socket, 'refused', IDLE_MS);
    const { promise: sent, resolve } = Promise.withResolvers<void>();
    client.write('x', () => resolve());
    await sent;
    // The bytes are in the kernel when this process pauses for longer than the client may be idle.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3 * IDLE_MS);
    const ends = once(client, 'end');
    const [received] = (await once(client, 'data')) as [Buffer];
    expect(received.toString()).toBe('refused');
    await ends;
    const closed = once(socket, 'close');
    client.write('y');
    // It ends when the client sends nothing any more.
    await closed;
    expect(socket.bytesRead).toBe(2);
  } finally {
    client.destroy();
    server.close();
  }
});
