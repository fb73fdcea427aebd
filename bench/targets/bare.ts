import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type Dispatcher, Pool } from 'undici';

/**
 * The floor in Node: a reverse proxy with nothing of its own. It takes the whole body, sends it on
 * by `dispatch`, and passes the reply's bytes as they come. No key is checked, nothing is written.
 *
 * As a program: `node bench/targets/bare.ts PORT UPSTREAM_PORT`.
 */
const [port, upstreamPort] = process.argv.slice(2);
const BACKLOG = 4096;
const KEEP_ALIVE_MS = 120_000;

// No bound on connections: a pool that queues would hold streams back without any sign of it.
const pool = new Pool(`http://127.0.0.1:${upstreamPort}`, {
  connections: null,
  pipelining: 1,
  headersTimeout: 0,
  bodyTimeout: 0,
  keepAliveTimeout: KEEP_ALIVE_MS,
});

function relay(request: IncomingMessage, response: ServerResponse): void {
  const pieces: Buffer[] = [];
  request.on('data', (piece: Buffer) => pieces.push(piece));
  request.on('end', () => {
    const body = pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces);
    const headers = {
      'content-type': 'application/json',
      'content-length': String(body.length),
      accept: request.headers.accept ?? '*/*',
      authorization: 'Bearer sk-up',
    };
    pool.dispatch({ path: request.url ?? '/', method: 'POST', headers, body }, forwardTo(response));
  });
}

function forwardTo(response: ServerResponse): Dispatcher.DispatchHandler {
  return {
    onRequestStart(controller) {
      response.on('drain', () => controller.resume());
      response.on('close', () => {
        if (!response.writableFinished) controller.abort(new Error('the client has left'));
      });
    },
    onResponseStart(_controller, status, headers) {
      const kept = ['content-type', 'content-length', 'x-request-id'] as const;
      response.writeHead(
        status,
        kept.flatMap((name) => (headers[name] === undefined ? [] : [name, headers[name]])),
      );
      // A stream's client waits for the head; a sized reply is cheaper as one write with its body.
      if (headers['content-length'] === undefined) response.flushHeaders();
    },
    onResponseData(controller, bytes) {
      if (!response.write(bytes)) controller.pause();
    },
    onResponseEnd() {
      response.end();
    },
    onResponseError() {
      if (response.headersSent) response.destroy();
      else response.writeHead(502).end();
    },
  };
}

const server = createServer({ highWaterMark: 65_536, keepAliveTimeout: KEEP_ALIVE_MS }, relay);
server.listen(Number(port), '127.0.0.1', BACKLOG);
