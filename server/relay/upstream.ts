import { type Dispatcher, errors, Pool } from 'undici';
import type { UpstreamConfig } from '#server/config.ts';
import { UPSTREAM_HEADER_BYTES_MAX, UPSTREAM_KEEP_ALIVE_MS } from '#server/bounds.ts';
import type { TokenLimitMember } from '#db/upstream-events.ts';

/**
 * A configured endpoint with its credential, and the connections to it. One pool per credential:
 * a reply that a hostile provider injects into a connection can then never reach a request that
 * was made with another credential. The pool has no cap of its own, because a cap would queue
 * streams silently; what may run at the same time is decided at admission.
 */
export type Upstream = {
  readonly name: string;
  /** Its host and port, which no message may tell a client. */
  readonly host: string;
  /** Names and patterns of the models it serves, as configured. */
  readonly models: readonly string[];
  /** The member of a request that it reads a limit on the reply from. */
  readonly tokenLimitMember: TokenLimitMember;
  /** Sends a chat completion. Everything that happens then is told to the handler. */
  send(body: Buffer, sse: boolean, handler: Dispatcher.DispatchHandler): void;
  /** GETs a small JSON document below the base address, such as `/models`. */
  getJson(path: string, timeoutMs: number, maxBytes: number): Promise<unknown>;
  close(): Promise<void>;
};

/** @param connectTimeoutMs how long a connection to the upstream may take, TLS included. */
export function openUpstream(config: UpstreamConfig, connectTimeoutMs: number): Upstream {
  const base = new URL(config.base_url);
  const path = `${base.pathname}/chat/completions`;
  const pool = new Pool(base.origin, {
    connections: null,
    pipelining: 1,
    connect: { timeout: connectTimeoutMs },
    keepAliveTimeout: UPSTREAM_KEEP_ALIVE_MS,
    keepAliveMaxTimeout: UPSTREAM_KEEP_ALIVE_MS,
    maxHeaderSize: UPSTREAM_HEADER_BYTES_MAX,
    // Deadlines are the request's own: undici's end a stream that is merely slow after 300 s.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  // An own Accept-Encoding, since the client's would let the upstream compress what we must read.
  const common = ['accept-encoding', 'identity', 'user-agent', 'daybook'];
  if (config.api_key !== '') common.push('authorization', `Bearer ${config.api_key}`);
  const jsonHeaders = ['content-type', 'application/json', 'accept', 'application/json', ...common];
  const sseHeaders = ['content-type', 'application/json', 'accept', 'text/event-stream', ...common];

  return {
    name: config.name,
    host: base.host,
    models: config.models,
    tokenLimitMember: config.token_limit,
    send(body, sse, handler) {
      pool.dispatch({ path, method: 'POST', headers: sse ? sseHeaders : jsonHeaders, body }, handler);
    },
    async getJson(below, timeoutMs, maxBytes) {
      const reply = await pool.request({
        path: base.pathname + below,
        method: 'GET',
        headers: ['accept', 'application/json', ...common],
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
      await pool.destroy();
    },
  };
}

/** What went wrong before any part of a reply had come. */
export function transportProblem(error: unknown): 'unreachable' | 'timed_out' | 'broken' {
  if (error instanceof errors.ConnectTimeoutError) return 'timed_out';
  const code = (error as NodeJS.ErrnoException | null)?.code ?? '';
  return UNREACHABLE.has(code) ? 'unreachable' : 'broken';
}

const UNREACHABLE = new Set([
  'ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOTFOUND', 'EAI_AGAIN', 'EADDRNOTAVAIL', 'EMFILE', 'ETIMEDOUT',
  'DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN', 'CERT_HAS_EXPIRED', 'ERR_TLS_CERT_ALTNAME_INVALID',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
]);
