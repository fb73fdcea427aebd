import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { OUTPUT_LINE_BYTES_MAX, TRANSFER_IDLE_MS } from '#server/batches/bounds.ts';
import { IdleTimeout } from '#server/batches/idle-timeout.ts';
import type { ApiError } from '#server/errors/api-error.ts';
import { replyOf } from '#server/http/respond.ts';
import { failureOf, readErrorReply } from '#server/stored/exchange.ts';
import type { OpenRequest, Stored } from '#server/stored/serve.ts';
import { LineSplitter } from '#server/wire/line-splitter.ts';

const LINE_FEED = Buffer.from('\n');

/**
 * Passes the content of a file on, line by line and without the upstream's credentials. It is not held in
 * memory.
 * @returns the error that the client is to be sent; null: it has its reply, or has disconnected.
 */
export function downloadFile(stored: Stored, request: OpenRequest): Promise<ApiError | null> {
  const path = `/files/${encodeURIComponent(stored.name.id)}/content`;
  return downloadLines(stored, request, { path, headers: [], type: 'application/octet-stream' });
}

/** The same of any lines that an upstream has. */
export async function downloadLines(
  { upstream, pool }: Stored,
  { response, open }: OpenRequest,
  { path, headers, type }: { path: string; headers: readonly string[]; type: string },
): Promise<ApiError | null> {
  using idle = new IdleTimeout(TRANSFER_IDLE_MS);
  const gone = new AbortController();
  const leave = (): void => gone.abort();
  response.once('close', leave);
  if (response.destroyed) gone.abort();
  try {
    const signal = AbortSignal.any([gone.signal, idle.signal]);
    const reply = await pool.exchange({ method: 'GET', path, headers, accept: '*/*', signal });
    if (reply.status !== 200) return await readErrorReply(reply, upstream, open);
    const { requestId, extraHeaders } = replyOf(response);
    const head = ['content-type', type, 'x-request-id', requestId, ...extraHeaders];
    response.writeHead(200, head);
    const lines = new LineSplitter(OUTPUT_LINE_BYTES_MAX);
    for await (const chunk of reply.body) {
      idle.touch();
      for (const line of lines.push(chunk)) {
        await write(response, upstream.redactor.json(line, false), signal);
        await write(response, LINE_FEED, signal);
      }
      idle.touch();
    }
    await write(response, upstream.redactor.json(lines.end(), false), signal);
    response.end();
    return null;
  } catch (error) {
    if (gone.signal.aborted) return null;
    if (!response.headersSent) return failureOf(error);
    // A file that ends too early must not look complete.
    response.destroy();
    return null;
  } finally {
    response.off('close', leave);
  }
}

async function write(response: ServerResponse, bytes: Buffer, signal: AbortSignal): Promise<void> {
  if (bytes.length > 0 && !response.write(bytes)) await once(response, 'drain', { signal });
}
