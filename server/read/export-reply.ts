import type { Response } from 'express';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { replyOf } from '#server/http/respond.ts';
import { SLOW_READER_MS } from '#server/http/bounds.ts';
import type { ApiError } from '#server/errors/api-error.ts';

/** Ends an export that has begun where the rest can't be read right now. */
export class ExportCutError extends Error {
  override name = 'ExportCutError';

  constructor({ message }: ApiError) {
    super(message);
  }
}

/**
 * Replies with lines that are read step by step: the next ones only when those before were taken.
 * Whatever fails meanwhile cuts the connection, so that nobody takes a part for the whole.
 * @param headers further ones, in pairs.
 * @throws what `lines` throws, but for an {@link ExportCutError}: a fault of ours.
 */
export async function replyWithLines(
  response: Response,
  headers: readonly string[],
  lines: AsyncIterable<string>,
): Promise<null> {
  const { requestId, extraHeaders } = replyOf(response);
  response.writeHead(200, [...headers, 'x-request-id', requestId, ...extraHeaders]);
  if (response.req.method === 'HEAD') {
    response.end();
    return null;
  }
  response.setTimeout(SLOW_READER_MS, () => response.destroy());
  const steps = lines[Symbol.asyncIterator]();
  let failure: unknown = null;
  async function* noted(): AsyncGenerator<string> {
    for (;;) {
      const step = await steps.next().catch((error: unknown) => {
        failure = error;
        throw error;
      });
      if (step.done === true) return;
      // A reader who leaves ends it here, which is no failure of the lines.
      yield step.value;
    }
  }
  await pipeline(Readable.from(noted()), response).catch(() => {});
  if (failure !== null && !(failure instanceof ExportCutError)) throw failure;
  return null;
}
