import { createServer, type AddressInfo, type Socket } from 'node:net';

/** An upstream whose replies are bytes: it reads each request and leaves the rest to its caller. */
export type RawUpstream = AsyncDisposable & { baseUrl: string };

const HEAD_END = '\r\n\r\n';

/** @param answer gets the body of each complete request, and writes the reply. */
export async function startRawUpstream(
  answer: (body: string, socket: Socket) => void | Promise<void>,
): Promise<RawUpstream> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    let received = '';
    socket.setEncoding('latin1');
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', (text: string) => {
      received += text;
      const end = received.indexOf(HEAD_END);
      const length = Number(/^content-length: *(\d+)/im.exec(received)?.[1] ?? 0);
      if (end < 0 || received.length < end + HEAD_END.length + length) return;
      const body = received.slice(end + HEAD_END.length, end + HEAD_END.length + length);
      received = received.slice(end + HEAD_END.length + length);
      void answer(body, socket);
    });
  });
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
