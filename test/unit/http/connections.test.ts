import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { limitConnections } from '#server/http/connection-limit.ts';
import { resetConnection } from '#server/http/reset-connection.ts';

/** Connections of an HTTP server, on real sockets. */

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function listen(handle: (response: ServerResponse) => void): Promise<Server> {
  const server = createServer((_request, response) => handle(response));
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

async function client(server: Server): Promise<Socket> {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  socket.on('error', () => {});
  await once(socket, 'connect');
  return socket;
}

test('a reset ends the connection of a client that reads nothing, and drops unread bytes', async () => {
  const { promise: response, resolve } = Promise.withResolvers<ServerResponse>();
  const server = await listen((each) => {
    // More than the kernel takes.
    each.write(Buffer.alloc(32 * 1024 * 1024));
    resolve(each);
  });
  const socket = await client(server);
  socket.pause();
  socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
  resetConnection(await response);
  expect((await response).destroyed).toBe(true);
  const ended = new Promise<string>((done) => {
    socket.once('error', ({ code }: NodeJS.ErrnoException) => done(code ?? ''));
    socket.once('end', () => done('end'));
  });
  socket.resume();
  expect(await ended).toBe('ECONNRESET');
});

test('connections beyond the bound are closed when they are accepted, and reported', async () => {
  const lines: unknown[] = [];
  const server = await listen((response) => response.end('ok'));
  limitConnections(server, { failed: (fields, line) => void lines.push([fields(), line]) }, 2);
  const [first, second, third] = [await client(server), await client(server), await client(server)];
  // Also a socket that would only see the end.
  third.resume();
  await once(third, 'close');
  expect(lines).toEqual([[{ connections: 2 }, 'connection dropped: too many connections']]);
  first.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
  expect(String(await once(first, 'data'))).toContain('200 OK');
  // One that ends makes room for another.
  second.destroy();
  await expect.poll(() => connectionsOf(server)).toBe(1);
  const next = await client(server);
  next.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
  expect(String(await once(next, 'data'))).toContain('200 OK');
  expect(lines).toHaveLength(1);
});

const connectionsOf = (server: Server): Promise<number> =>
  new Promise((resolve) => server.getConnections((_error, count) => resolve(count)));
