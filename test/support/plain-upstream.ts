import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A provider of routes that the scripted upstream doesn't have: each test says how it replies. */
export type PlainUpstream = AsyncDisposable & {
  readonly url: string;
  /** The requests so far; a body is whole once its request has ended. */
  readonly requests: PlainRequest[];
  /** How it replies from now on. */
  reply: Reply;
  /** Replies to the newest request although it is still being received. @returns whether it was. */
  earlyReply(status: number, body: string): boolean;
};

export type PlainRequest = {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: Buffer;
  /** Bytes that were received so far. */
  received: number;
  isComplete: boolean;
};

/** @returns the reply once the request was received; null: the function replies by itself. */
type Reply = (
  request: PlainRequest,
  response: ServerResponse,
) => { status?: number; type?: string; body: string | Buffer } | null;

export async function startPlainUpstream(reply: Reply): Promise<PlainUpstream> {
  const requests: PlainRequest[] = [];
  let newest: ServerResponse | null = null;
  const server = createServer((request, response) => {
    const received: Buffer[] = [];
    const { method = '', url = '', headers } = request;
    const seen: PlainRequest = {
      ...{ method, path: url, headers, body: Buffer.alloc(0) },
      ...{ received: 0, isComplete: false },
    };
    requests.push(seen);
    newest = response;
    request.on('error', () => {});
    request.on('data', (chunk: Buffer) => {
      received.push(chunk);
      seen.received += chunk.length;
    });
    request.on('end', () => {
      seen.body = Buffer.concat(received);
      seen.isComplete = true;
      if (response.headersSent) return;
      const answer = upstream.reply(seen, response);
      if (answer === null) return;
      const { status = 200, type = 'application/json', body } = answer;
      response.writeHead(status, { 'content-type': type }).end(body);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const upstream: PlainUpstream = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    reply,
    earlyReply(status, body) {
      if (newest === null || newest.req.complete) return false;
      newest.writeHead(status, { 'content-type': 'application/json' }).end(body);
      return true;
    },
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
  return upstream;
}
