import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { DEADLINE_TICK_MS } from '#server/relay/bounds.ts';
import { Deadlines } from '#server/relay/deadlines.ts';

test('after a stall of the process, waiting bytes are read before deadlines are compared', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const client = connect(port, '127.0.0.1');
  const [sender] = (await once(server, 'connection')) as [Socket];
  const order: string[] = [];
  client.on('data', () => order.push('read'));
  const deadlines = new Deadlines();
  const compared = Promise.withResolvers<void>();
  const target = {
    checkDeadlines: (): void => {
      order.push('compared');
      compared.resolve();
    },
  };
  const membership = deadlines.watch(target);
  // What follows in the event loop are timers, and reading after them.
  setImmediate(() => {
    sender.write('a token');
    const until = performance.now() + 2 * DEADLINE_TICK_MS;
    while (performance.now() < until);
  });
  await compared.promise;
  deadlines.unwatch(membership);
  expect(order).toEqual(['read', 'compared']);
  client.destroy();
  sender.destroy();
  server.close();
});
