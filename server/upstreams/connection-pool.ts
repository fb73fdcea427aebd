import { type Dispatcher, Pool } from 'undici';
import { UPSTREAM_HEADER_BYTES_MAX, UPSTREAM_KEEP_ALIVE_MS } from '#server/upstreams/bounds.ts';
import type { ProviderCall, ProviderRequest } from '#server/providers/provider.ts';
import { CircuitBreaker } from '#server/upstreams/circuit-breaker.ts';

/**
 * The connections to an upstream that are made with one credential. One pool per credential: a reply
 * that a hostile provider injects into a connection can then never reach a request that was made with
 * another one. The pool has no cap of its own, because a cap would queue streams silently; what may
 * run at the same time is decided at admission.
 */
export type UpstreamConnectionPool = {
  /** The credential's id; null for that of the environment. */
  readonly credential: string | null;
  readonly health: CircuitBreaker;
  /** Carries a call out. Everything that happens then is told to the handler. */
  send(call: ProviderCall, request: ProviderRequest, handler: Dispatcher.DispatchHandler): void;
  /** The upstream's own list of its models, as JSON. @throws {Error} in a few words. */
  getModels(timeoutMs: number, maxBytes: number): Promise<unknown>;
  /** Lets the running calls end, and takes no new ones. */
  close(): Promise<void>;
  /** Ends them. */
  destroy(): Promise<void>;
};

export type ConnectionPoolOptions = {
  base: URL;
  credential: string | null;
  /** What every request carries: the credential in its header, in pairs. */
  headers: readonly string[];
  /** Where its list of models is, and what is sent along to get it. */
  models: { path: string; headers: readonly string[] };
  /** How connections are made; it judges where they lead. */
  connect: NonNullable<Pool.Options['connect']>;
};

/** How connections to upstreams are kept, whoever asks for them. */
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

export function openConnectionPool({
  base,
  credential,
  headers,
  models,
  connect,
}: ConnectionPoolOptions): UpstreamConnectionPool {
  const pool = new Pool(base.origin, { ...CONNECTIONS, connect });
  // An own Accept-Encoding, since the client's would let the upstream compress what we must read.
  const common = ['accept-encoding', 'identity', 'user-agent', 'daybook', ...headers];
  const jsonHeaders = ['content-type', 'application/json', 'accept', 'application/json', ...common];
  const sseHeaders = ['content-type', 'application/json', 'accept', 'text/event-stream', ...common];

  return {
    credential,
    health: new CircuitBreaker(),
    send({ parsed: asked }, request, handler) {
      const own = asked.sse ? sseHeaders : jsonHeaders;
      const all = request.headers.length === 0 ? own : [...own, ...request.headers];
      pool.dispatch(
        { path: pathBelow(base, request.path), method: 'POST', headers: all, body: request.body },
        handler,
      );
    },
    async getModels(timeoutMs, maxBytes) {
      const reply = await pool.request({
        path: pathBelow(base, models.path),
        method: 'GET',
        headers: ['accept', 'application/json', ...common, ...models.headers],
        signal: AbortSignal.timeout(timeoutMs),
      });
      const text: Buffer[] = [];
      let size = 0;
      for await (const chunk of reply.body as AsyncIterable<Buffer>) {
        size += chunk.length;
        if (size > maxBytes) throw new Error('the reply is too large');
        text.push(chunk);
      }
      if (reply.statusCode !== 200) throw new Error(`the upstream answered ${reply.statusCode}`);
      return JSON.parse(Buffer.concat(text).toString()) as unknown;
    },
    async close() {
      await pool.close();
    },
    async destroy() {
      await pool.destroy();
    },
  };
}

/**
 * Base addresses are written with the version at their end, or without it where the protocol's paths begin
 * with one.
 */
function pathBelow({ pathname }: URL, path: string): string {
  const below = pathname === '/' ? '' : pathname;
  return path.startsWith('/v1/') ? below.replace(/\/v1$/, '') + path : below + path;
}
