import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What a receiver of destinations was sent. */
export type Received = { headers: IncomingHttpHeaders; body: string };

/** A receiver of destinations on this machine. It replies with 204, or as it is told to. */
export type Receiver = AsyncDisposable & {
  url: string;
  received: Received[];
  /** The status of the replies from here on; null: none comes. */
  reply: { status: number | null; headers?: Record<string, string> };
};

export async function startReceiver(): Promise<Receiver> {
  const received: Received[] = [];
  const receiver: Pick<Receiver, 'reply'> = { reply: { status: 204 } };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      received.push({ headers: request.headers, body: Buffer.concat(chunks).toString() });
      const { status, headers = {} } = receiver.reply;
      if (status !== null) response.writeHead(status, headers).end('what a receiver says is not kept');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return Object.assign(receiver, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook/canary-path`,
    received,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}

/** Whether a delivery is signed with this secret: what a receiver does, after the scheme's own text. */
export function isSigned({ headers, body }: Received, secret: string): boolean {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const signature = createHmac('sha256', key)
    .update(`${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${body}`)
    .digest('base64');
  return String(headers['webhook-signature']).split(' ').includes(`v1,${signature}`);
}
