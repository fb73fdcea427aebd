import type { ServerResponse } from 'node:http';
import { ApiError } from '#server/errors/api-error.ts';
import type { OpenCall } from '#server/limits/open-calls.ts';
import { apiErrorOfReply } from '#server/relay/upstream-errors.ts';
import { readReplyHead } from '#server/relay/reply-head.ts';
import { transportFailure } from '#server/relay/transport-failure.ts';
import { STORED_REPLY_MS } from '#server/stored/bounds.ts';
import type { UpstreamConnectionPool, UpstreamRequest } from '#server/upstreams/connection-pool.ts';
import type { Upstream } from '#server/upstreams/upstream.ts';
import { ERROR_REPLY_BYTES_MAX, JSON_REPLY_BYTES_MAX } from '#server/wire/bounds.ts';
import { ByteCollector } from '#server/wire/byte-collector.ts';

type Parties = {
  upstream: Upstream;
  pool: UpstreamConnectionPool;
  /** The memory that the reply is held in. */
  open: Pick<OpenCall, 'holdBody'>;
  /** The client's, whose end ends the exchange. */
  response: ServerResponse;
};

/**
 * Sends a request for a stored response to its upstream.
 * @returns the reply's bytes without credentials, its error in the relay's words, or null: the client has
 * disconnected.
 */
export async function exchange(
  { upstream: { provider, redactor }, pool, open, response }: Parties,
  request: Omit<UpstreamRequest, 'signal'>,
): Promise<Buffer | ApiError | null> {
  const gone = new AbortController();
  const leave = (): void => gone.abort();
  response.once('close', leave);
  if (response.destroyed) gone.abort();
  try {
    const signal = AbortSignal.any([gone.signal, AbortSignal.timeout(STORED_REPLY_MS)]);
    const { status, headers, body } = await pool.exchange({ ...request, signal });
    const { form, retryAfter } = readReplyHead(status, headers, false, redactor);
    const bytesMax = form === 'error' ? ERROR_REPLY_BYTES_MAX : JSON_REPLY_BYTES_MAX;
    const bytes = await collect(body, bytesMax, open);
    if (bytes instanceof ApiError) return bytes;
    if (form === 'error')
      return apiErrorOfReply({ status, fault: provider.parseError(bytes), retryAfter, redactor }).refusal;
    return form === 'json' ? redactor.json(bytes, false) : new ApiError('upstream_error');
  } catch (error) {
    if (gone.signal.aborted) return null;
    if ((error as Error).name === 'TimeoutError') return new ApiError('upstream_timeout');
    return new ApiError(transportFailure(error)[0]);
  } finally {
    response.off('close', leave);
  }
}

async function collect(
  body: AsyncIterable<Buffer>,
  bytesMax: number,
  open: Pick<OpenCall, 'holdBody'>,
): Promise<Buffer | ApiError> {
  const collected = new ByteCollector();
  for await (const chunk of body) {
    collected.push(chunk);
    if (collected.length > bytesMax) return new ApiError('upstream_error');
    const full = open.holdBody(collected.length);
    if (full) return full;
  }
  return collected.take() ?? Buffer.alloc(0);
}
