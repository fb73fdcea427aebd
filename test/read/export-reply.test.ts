import type { Response } from 'express';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import type { WithReply } from '#server/http/respond.ts';
import { ExportCutError, replyWithLines } from '#server/read/export-reply.ts';
import { ApiError } from '#server/errors/api-error.ts';

const OURS = new TypeError('of undefined');
const CUT = new ExportCutError(new ApiError('store_unavailable'));

async function* failing(error: Error): AsyncGenerator<string> {
  yield 'first\n';
  throw error;
}

async function* endless(): AsyncGenerator<string> {
  for (;;) yield 'more\n'.repeat(1_000);
}

/** What the reply to one request came to here, and what its reader saw of it. */
async function exportOnce<T>(
  lines: AsyncIterable<string>,
  read: (response: globalThis.Response) => Promise<T>,
): Promise<{ here: unknown; there: T | Error }> {
  const answered = Promise.withResolvers<unknown>();
  const server = createServer((_request, response: ServerResponse) => {
    (response as WithReply).reply = { requestId: 'one', extraHeaders: [] };
    replyWithLines(response as unknown as Response, ['content-type', 'text/plain'], lines).then(
      answered.resolve,
      answered.resolve,
    );
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  try {
    const there = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
      .then(read)
      .catch((error: Error) => error);
    return { here: await answered.promise, there };
  } finally {
    server.close();
  }
}

test('a failing export cuts the connection; a bug is thrown as well', async () => {
  const text = (response: globalThis.Response): Promise<string> => response.text();
  const ours = await exportOnce(failing(OURS), text);
  expect(ours.there).toBeInstanceOf(Error);
  expect(ours.here).toBe(OURS);
  const away = await exportOnce(failing(CUT), text);
  expect(away.there).toBeInstanceOf(Error);
  expect(away.here).toBeNull();
});

test("a reader who leaves in the middle of an export ends it, and is nobody's fault", async () => {
  const { here } = await exportOnce(endless(), (response) => (response.body as ReadableStream).cancel());
  expect(here).toBeNull();
});
