import type { Response } from 'express';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { replyOf } from '#server/http/respond.ts';
import { SLOW_READER_MS } from '#server/http/bounds.ts';
import { resetConnection } from '#server/http/reset-connection.ts';
import type { ApiError } from '#server/errors/api-error.ts';

/** Ends a started export if the rest can't be read. */
export class ExportCutError extends Error {
  override name = 'ExportCutError';

  constructor({ message }: ApiError) {
    super(message);
  }
}

/**
 * Replies with lines that are read step by step, each after the client took the previous one. A failure cuts
 * the connection, so that a truncated export isn't taken for a complete one.
 * @param headers additional ones, in pairs.
 * @throws errors of `lines` except {@link ExportCutError}.
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
  response.setTimeout(SLOW_READER_MS, () => resetConnection(response));
  const steps = lines[Symbol.asyncIterator]();
  let failure: unknown = null;
  async function* noted(): AsyncGenerator<string> {
    for (;;) {
      const step = await steps.next().catch((error: unknown) => {
        failure = error;
        throw error;
      });
      if (step.done === true) return;
      // A client that disconnects ends it here, which isn't an error.
      yield step.value;
    }
  }
  await pipeline(Readable.from(noted()), response).catch(() => {});
  if (failure !== null && !(failure instanceof ExportCutError)) throw failure;
  return null;
}
