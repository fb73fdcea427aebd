import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ReadStore, type Source } from '#server/read/store.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { createDatabase } from '../support/database.ts';

const SOURCE: Source = { projection: 'requests', tables: ['request'] };

test('a connection lost during a read fails that read only', async () => {
  await using database = await createDatabase();
  const config = database.config('relay');
  const sockets = new Set<Socket>();
  // Between the two, so that the connection can be cut without a word, as a crash does.
  const between = createServer((client) => {
    const server = connect(path.join(config.host ?? '', `.s.PGSQL.${config.port}`));
    for (const socket of [client, server])
      socket
        .on('error', () => undefined)
        .on('close', () => [client, server].forEach((each) => each.destroy()));
    sockets.add(client);
    client.pipe(server).pipe(client);
  });
  await once(between.listen(0, '127.0.0.1'), 'listening');
  const reads = new ReadStore({
    ...config,
    host: '127.0.0.1',
    port: (between.address() as AddressInfo).port,
  });
  try {
    const cut = await reads.read(SOURCE, async (client) => {
      const waiting = client.query('select pg_sleep(60)');
      for (const socket of sockets) socket.destroy();
      await waiting;
    });
    expect(cut).toBeInstanceOf(ApiError);
    expect((cut as ApiError).code).toBe('store_unavailable');
    // Between two questions nobody waits for it, and it breaks all the same.
    const idle = await reads.read(SOURCE, async (client) => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => client.once('end', resolve));
    });
    expect(idle).toBeInstanceOf(ApiError);
    expect(await reads.read(SOURCE, async () => 'read')).toMatchObject({ found: 'read' });
  } finally {
    await reads.close();
    between.close();
  }
});

test('a bug during a read is thrown, and the next read succeeds', async () => {
  await using database = await createDatabase();
  const reads = new ReadStore(database.config('relay'));
  try {
    const ours = new TypeError('of undefined');
    const failed = reads.read(SOURCE, () => Promise.reject(ours));
    await expect(failed).rejects.toBe(ours);
    await expect(reads.read(SOURCE, (client) => client.query('select no_such_column'))).rejects.toMatchObject(
      { code: '42703' },
    );
    expect(await reads.read(SOURCE, async () => 'read')).toMatchObject({ found: 'read' });
  } finally {
    await reads.close();
  }
});
