import { readFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { gzipSync } from 'node:zlib';

/** What a provider answers: a fixture or a text, in pieces of so many bytes, and how it goes on then. */
export type Answer = {
  fixture?: string;
  text?: string;
  status?: number;
  headers?: Record<string, string>;
  /** Compresses the answer, and says so. */
  isCompressed?: true;
  pieceBytes?: number;
  /**
   * `hang`: no more comes, and no end. `reset`: the connection is dropped. `flood`: the text again and again,
   * as fast as it is taken.
   */
  ending?: 'end' | 'hang' | 'reset' | 'flood';
};

export type Asked = {
  path: string;
  headers: IncomingHttpHeaders;
  body: Record<string, unknown>;
  /** How the answer ended: with its last byte, or because the other side had gone. */
  closed: Promise<'whole' | 'early'>;
  /** Bytes of the answer that the other side has taken or that lie in buffers. */
  writtenBytes: number;
};

/** A provider that uses whatever its script says, over real connections. */
export type ScriptedProvider = AsyncDisposable & {
  url: string;
  asked: Asked[];
  /** What the next request is answered with, each once; the last one stays. */
  answers: Answer[];
  /** Resolves when so many requests have come. */
  until(count: number): Promise<void>;
};

const FIXTURES = path.join(import.meta.dirname, '../../fixtures/bridge');

export async function startProvider(): Promise<ScriptedProvider> {
  const asked: Asked[] = [];
  const answers: Answer[] = [];
  let reported = (): void => {};
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const closed = new Promise<'whole' | 'early'>((resolve) =>
        response.once('close', () => resolve(response.writableFinished ? 'whole' : 'early')),
      );
      const text = Buffer.concat(parts).toString();
      const seen: Asked = {
        path: request.url ?? '',
        headers: request.headers,
        body: text === '' ? {} : (JSON.parse(text) as Record<string, unknown>),
        closed,
        writtenBytes: 0,
      };
      asked.push(seen);
      reported();
      void answer(response, seen, (answers.length > 1 ? answers.shift() : answers[0]) ?? {});
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    answers,
    async until(count) {
      while (asked.length < count) {
        await new Promise<void>((resolve) => {
          reported = resolve;
        });
      }
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

async function answer(
  response: ServerResponse,
  seen: Asked,
  { fixture, text, status = 200, headers = {}, isCompressed, pieceBytes, ending = 'end' }: Answer,
): Promise<void> {
  const plain = fixture === undefined ? Buffer.from(text ?? '') : readFileSync(path.join(FIXTURES, fixture));
  const bytes = isCompressed ? gzipSync(plain) : plain;
  const contentType = fixture?.endsWith('.sse') ? 'text/event-stream' : 'application/json; charset=UTF-8';
  response.on('error', () => undefined);
  response.writeHead(status, {
    'content-type': contentType,
    ...(isCompressed ? { 'content-encoding': 'gzip' } : {}),
    ...headers,
  });
  response.flushHeaders();
  const size = pieceBytes ?? Math.max(bytes.length, 1);
  for (let at = 0; at < bytes.length; at += size) {
    response.write(bytes.subarray(at, at + size));
    seen.writtenBytes += Math.min(size, bytes.length - at);
    if (pieceBytes !== undefined) await new Promise(setImmediate);
  }
  while (ending === 'flood' && !response.destroyed) {
    seen.writtenBytes += bytes.length;
    if (!response.write(bytes))
      await Promise.race([seen.closed, new Promise((resolve) => response.once('drain', resolve))]);
  }
  if (ending === 'end') response.end();
  // What was written has to are received before the connection breaks.
  if (ending === 'reset') setTimeout(() => response.socket?.resetAndDestroy(), 20);
}
