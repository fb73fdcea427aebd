import type { Socket } from 'node:net';
import { headerOf, readMessage, requestFraming, type Head } from '../wire/http-message.ts';

/** One request as it came over the wire. */
export type Request = {
  method: string;
  path: string;
  /** Without its question mark. */
  query: string;
  headers: [name: string, value: string][];
  body: Buffer;
};

/** One connection of the other side: its requests one after the other, and the news that it left. */
export type Connection = {
  number: number;
  socket: Socket;
  /** Aborted when the other side has ended or reset the connection. */
  gone: AbortSignal;
  /** True while no request is under way. */
  idle: boolean;
  /** The next request, or null when there will be none. @throws {MalformedMessage} */
  nextRequest(): Promise<Request | null>;
};

const BODY_BYTES_MAX = 256 * 1024 ** 2;
const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n';

/** Takes over a socket. It is read at all times, because a departure is noticed only by reading. */
export function openConnection(socket: Socket, number: number): Connection {
  const arrived: Buffer[] = [];
  const gone = new AbortController();
  let wake: (() => void) | null = null;

  socket.on('data', (bytes: Buffer) => {
    arrived.push(bytes);
    wake?.();
  });
  // A failed socket is closed as well, which is what counts.
  socket.on('error', () => undefined);
  for (const event of ['end', 'close']) {
    socket.on(event, () => {
      gone.abort();
      wake?.();
    });
  }

  async function nextBytes(): Promise<Buffer | null> {
    while (arrived.length === 0 && !gone.signal.aborted) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    return arrived.shift() ?? null;
  }

  async function nextRequest(): Promise<Request | null> {
    const message: { head: Head; body: Buffer[]; bodyBytes: number } = {
      head: { startLine: '', headers: [] },
      body: [],
      bodyBytes: 0,
    };
    const reader = readMessage({
      head(read) {
        message.head = read;
        if (headerOf(read, 'expect')?.toLowerCase() === '100-continue') socket.write(CONTINUE);
        return requestFraming(read);
      },
      body(bytes) {
        message.body.push(bytes);
        message.bodyBytes += bytes.length;
      },
    });
    connection.idle = true;
    while (!reader.complete) {
      const bytes = await nextBytes();
      if (bytes === null || message.bodyBytes > BODY_BYTES_MAX) return null;
      connection.idle = false;
      const after = reader.push(bytes);
      if (after.length > 0) arrived.unshift(after);
    }
    const { startLine, headers } = message.head;
    const [method = '', target = ''] = startLine.split(' ');
    const [path = '', query = ''] = target.split('?', 2);
    return { method, path, query, headers, body: Buffer.concat(message.body) };
  }

  const connection: Connection = { number, socket, gone: gone.signal, idle: true, nextRequest };
  return connection;
}
