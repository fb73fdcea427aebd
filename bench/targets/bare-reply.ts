import { createServer } from 'node:http';

/**
 * The floor of a refusal: a Node server that decides nothing and always gives the same reply, the
 * one that Daybook's refusal was found to be.
 *
 * As a program: `node bench/targets/bare-reply.ts PORT REPLY`, the reply as JSON.
 */
export type FixedReply = { status: number; headers: Record<string, string>; body: string };

const [port, reply] = process.argv.slice(2);
const { status, headers, body } = JSON.parse(reply ?? '') as FixedReply;
const bytes = Buffer.from(body);
const BACKLOG = 4096;
const KEEP_ALIVE_MS = 120_000;

const server = createServer(
  { highWaterMark: 65_536, keepAliveTimeout: KEEP_ALIVE_MS },
  (_request, response) => {
    response.writeHead(status, { ...headers, 'content-length': bytes.length });
    response.end(bytes);
  },
);
server.listen(Number(port), '127.0.0.1', BACKLOG);
