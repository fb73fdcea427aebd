import type { IncomingHttpHeaders } from 'node:http';
import { pipeline, type Readable } from 'node:stream';
import { type Dispatcher, Pool } from 'undici';
import { UPSTREAM_HEADER_BYTES_MAX, UPSTREAM_KEEP_ALIVE_MS } from '#server/upstreams/bounds.ts';
import type { ProviderCall, ProviderRequest } from '#server/providers/provider.ts';
import { ModelListError } from '#server/upstreams/model-list-error.ts';
import { ByteCollector } from '#server/wire/byte-collector.ts';
import { decoderOf, DecodingHandler } from '#server/upstreams/decoding-handler.ts';
import { acceptContinueReplies } from '#server/upstreams/continue-replies.ts';
import { CircuitBreaker } from '#server/upstreams/circuit-breaker.ts';

/**
 * The connections to an upstream that are made with one credential. One pool per credential: a reply
 * that a hostile provider injects into a connection can then never reach a request of another credential. The
 * pool has no cap of its own, because a cap would queue streams silently; what may run at the same time is
 * decided at admission.
 */
export type UpstreamConnectionPool = {
  /** The credential's id; null for that of the environment. */
  readonly credential: string | null;
  readonly circuit: CircuitBreaker;
  /** Sends a call; the handler receives everything that follows. */
  send(call: ProviderCall, request: ProviderRequest, handler: Dispatcher.DispatchHandler): void;
  /** Sends a request that runs no model. @throws if there is no reply. */
  exchange(request: UpstreamRequest): Promise<UpstreamReply>;
  /**
   * The upstream's own list of its models, parsed from JSON. @throws {ModelListError} where the reply is
   * none.
   */
  getModels(timeoutMs: number, maxBytes: number): Promise<unknown>;
  /** Drains: running calls end, new ones are rejected. */
  close(): Promise<void>;
  /** Closes all connections at once. */
  destroy(): Promise<void>;
};

/** `path` is behind the upstream's base address. */
export type UpstreamRequest = {
  method: 'GET' | 'POST' | 'DELETE';
  path: string;
  /** Whether it is for the provider's own API, see {@link ConnectionPoolOptions}. */
  isOwn?: boolean;
  /** The type that is asked for; absent: JSON. */
  accept?: string;
  /** Headers beside those of the upstream itself, in pairs; with a body, those that describe it. */
  headers?: readonly string[];
  body?: Buffer | Readable;
  /** Ends the exchange, its reply included. */
  signal: AbortSignal;
};

export type UpstreamReply = {
  status: number;
  /** Without those of an encoding, since the body is decoded. */
  headers: IncomingHttpHeaders;
  body: AsyncIterable<Buffer>;
};

export type ConnectionPoolOptions = {
  base: URL;
  credential: string | null;
  /** Headers of every request, in pairs: the credential. */
  headers: readonly string[];
  /** The path of its list of models, and the headers of that request. */
  models: { path: string; headers: readonly string[] };
  /** The provider's own API, beside the one of the upstream's dialect; null: it has no other. */
  own: { base: URL; headers: readonly string[] } | null;
  /** Opens connections, and decides which addresses are allowed. */
  connect: NonNullable<Pool.Options['connect']>;
};

/** Options that all connections to upstreams share. */
export const CONNECTIONS = {
  connections: null,
  pipelining: 1,
  // Each call has a connection to itself: a cut ends no other one.
  allowH2: false,
  keepAliveTimeout: UPSTREAM_KEEP_ALIVE_MS,
  keepAliveMaxTimeout: UPSTREAM_KEEP_ALIVE_MS,
  maxHeaderSize: UPSTREAM_HEADER_BYTES_MAX,
  // Deadlines are the request's own: undici's end a stream that is merely slow after 300 s.
  headersTimeout: 0,
  bodyTimeout: 0,
} as const satisfies Pool.Options;

const NO_HEADERS: readonly string[] = [];
/** An own Accept-Encoding, since the client's would let the upstream compress its reply. */
const COMMON: readonly string[] = ['accept-encoding', 'identity', 'user-agent', 'daybook'];
const JSON_TYPE = 'application/json';
const JSON_BODY: readonly string[] = ['content-type', JSON_TYPE];

const traceHeaders = ({ traceparent, tracestate }: NonNullable<ProviderCall['trace']>): readonly string[] =>
  tracestate === null ? ['traceparent', traceparent] : ['traceparent', traceparent, 'tracestate', tracestate];

export function openConnectionPool({
  base,
  credential,
  headers,
  models,
  own: ownApi,
  connect,
}: ConnectionPoolOptions): UpstreamConnectionPool {
  acceptContinueReplies();
  const pool = new Pool(base.origin, { ...CONNECTIONS, connect });
  const common = [...COMMON, ...headers];
  const ownCommon = ownApi === null ? common : [...COMMON, ...ownApi.headers];
  const ownBase = ownApi?.base ?? base;
  const jsonHeaders = [...JSON_BODY, 'accept', 'application/json', ...common];
  const sseHeaders = [...JSON_BODY, 'accept', 'text/event-stream', ...common];
  const ownHeaders = [...JSON_BODY, 'accept', 'application/json', ...ownCommon];

  async function exchange({
    method,
    path,
    accept = 'application/json',
    headers: own = NO_HEADERS,
    body,
    isOwn = false,
    signal,
  }: UpstreamRequest): Promise<UpstreamReply> {
    const reply = await pool.request({
      path: pathBelow(isOwn ? ownBase : base, path),
      method,
      headers: ['accept', accept, ...(isOwn ? ownCommon : common), ...own],
      body: body ?? null,
      signal,
    });
    const decoder = decoderOf(reply.headers);
    if (decoder === null) return { status: reply.statusCode, headers: reply.headers, body: reply.body };
    const { 'content-encoding': _encoding, 'content-length': _length, ...decoded } = reply.headers;
    return { status: reply.statusCode, headers: decoded, body: pipeline(reply.body, decoder, () => {}) };
  }

  return {
    credential,
    circuit: new CircuitBreaker(),
    send({ parsed: asked, trace = null }, request, handler) {
      const isOwn = request.isOwn === true;
      const own =
        request.contentType === undefined && asked.replies === undefined
          ? isOwn
            ? ownHeaders
            : asked.sse
              ? sseHeaders
              : jsonHeaders
          : ['content-type', request.contentType ?? JSON_TYPE, 'accept', '*/*', ...common];
      const traced = trace === null ? NO_HEADERS : traceHeaders(trace);
      const all =
        request.headers.length + traced.length === 0 ? own : [...own, ...request.headers, ...traced];
      const path = pathBelow(isOwn ? ownBase : base, request.path);
      pool.dispatch({ path, method: 'POST', headers: all, body: request.body }, new DecodingHandler(handler));
    },
    exchange,
    async getModels(timeoutMs, maxBytes) {
      const { path, headers: own } = models;
      const signal = AbortSignal.timeout(timeoutMs);
      const { status, body } = await exchange({ method: 'GET', path, headers: own, signal });
      const text = new ByteCollector();
      for await (const chunk of body) {
        text.push(chunk);
        if (text.length > maxBytes) throw new ModelListError({ kind: 'too_large' });
      }
      if (status !== 200) throw new ModelListError({ kind: 'status', status });
      return parseJson(text.take()?.toString() ?? '');
    },
    async close() {
      await pool.close();
    },
    async destroy() {
      await pool.destroy();
    },
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new ModelListError({ kind: 'not_json' }, { cause: error });
  }
}

/**
 * Base addresses are written with the version at their end, or without it where the protocol's paths begin
 * with one.
 */
function pathBelow({ pathname }: URL, path: string): string {
  const below = pathname === '/' ? '' : pathname;
  return path.startsWith('/v1/') ? below.replace(/\/v1$/, '') + path : below + path;
}
