import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { ApiError } from '#server/errors/api-error.ts';
import type { OpenCall } from '#server/limits/open-calls.ts';
import { apiErrorOfReply } from '#server/relay/upstream-errors.ts';
import { readReplyHead } from '#server/relay/reply-head.ts';
import { transportFailure } from '#server/relay/transport-failure.ts';
import { STORED_REPLY_MS } from '#server/stored/bounds.ts';
import type {
  UpstreamConnectionPool,
  UpstreamReply,
  UpstreamRequest,
} from '#server/upstreams/connection-pool.ts';
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
 * Sends a request that runs no model to an upstream.
 * @param timeout ends the exchange with a TimeoutError.
 * @returns the reply's bytes without credentials, its error in the relay's words, or null: the client has
 * disconnected.
 */
export async function exchange(
  { upstream, pool, open, response }: Parties,
  request: Omit<UpstreamRequest, 'signal'>,
  timeout: AbortSignal = AbortSignal.timeout(STORED_REPLY_MS),
): Promise<Buffer | ApiError | null> {
  const gone = new AbortController();
  const leave = (): void => gone.abort();
  response.once('close', leave);
  if (response.destroyed) gone.abort();
  try {
    const signal = AbortSignal.any([gone.signal, timeout]);
    return await readJsonReply(await pool.exchange({ ...request, signal }), upstream, open);
  } catch (error) {
    if (gone.signal.aborted) return null;
    return failureOf(error);
  } finally {
    response.off('close', leave);
  }
}

/** The JSON of a reply without credentials, or its error in the relay's words. @throws if it breaks off. */
export async function readJsonReply(
  { status, headers, body }: UpstreamReply,
  upstream: Upstream,
  open: Pick<OpenCall, 'holdBody'>,
): Promise<Buffer | ApiError> {
  const { form } = readReplyHead(status, headers, false, upstream.redactor);
  if (form === 'error') return readErrorReply({ status, headers, body }, upstream, open);
  const bytes = await collect(body, JSON_REPLY_BYTES_MAX, open);
  if (bytes instanceof ApiError) return bytes;
  return form === 'json' ? upstream.redactor.json(bytes, false) : new ApiError('upstream_error');
}

/** The error of a reply whose status is no success, in the relay's words. @throws where it breaks off. */
export async function readErrorReply(
  { status, headers, body }: UpstreamReply,
  { provider, redactor }: Pick<Upstream, 'provider' | 'redactor'>,
  open: Pick<OpenCall, 'holdBody'>,
): Promise<ApiError> {
  const bytes = await collect(body, ERROR_REPLY_BYTES_MAX, open);
  if (bytes instanceof ApiError) return bytes;
  const fault = provider.parseError(bytes);
  return apiErrorOfReply({ status, fault, retryAfter: retryAfterOf(headers), redactor }).refusal;
}

const retryAfterOf = ({ 'retry-after': value }: IncomingHttpHeaders): string | undefined => value;

/** The error of an exchange that broke off. */
export function failureOf(error: unknown): ApiError {
  if ((error as Error | null)?.name === 'TimeoutError') return new ApiError('upstream_timeout');
  return new ApiError(transportFailure(error)[0]);
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
