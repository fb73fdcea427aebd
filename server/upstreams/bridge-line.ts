import { Agent, fetch } from 'undici';
import type { UpstreamTerms } from '#db/upstream-events.ts';
import { UPSTREAM_HEADER_BYTES_MAX, UPSTREAM_KEEP_ALIVE_MS } from '#server/bounds.ts';
import { openBridge } from '#server/providers/bridge/bridge.ts';
import { Health } from '#server/upstreams/health.ts';
import type { Line, LineOptions } from '#server/upstreams/line.ts';

export type BridgeLineOptions = Pick<LineOptions, 'credential' | 'connect'> & {
  terms: Pick<UpstreamTerms, 'package' | 'base_url' | 'options'>;
  secret: string;
};

/** A line whose calls go out through a provider package. */
export type BridgeLine = Line & {
  /** Whether the package can be used: null, or one line for the operator that says what to do. */
  check(): Promise<string | null>;
};

/**
 * Opens a line through a provider package. Its connections are made as those of any line, with a pool
 * of their own for each credential; what the package does beside its requests, such as fetching a
 * token for a cloud, goes its own way.
 */
export function openBridgeLine({ terms, secret, credential, connect }: BridgeLineOptions): BridgeLine {
  const agent = new Agent({
    connections: null,
    pipelining: 1,
    connect,
    keepAliveTimeout: UPSTREAM_KEEP_ALIVE_MS,
    keepAliveMaxTimeout: UPSTREAM_KEEP_ALIVE_MS,
    maxHeaderSize: UPSTREAM_HEADER_BYTES_MAX,
    // Deadlines are the request's own.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  // The same function as Node's own, whose types are of another version.
  const given = (input: unknown, init: unknown): unknown => fetch(input as string, { ...(init as object), dispatcher: agent });
  const bridge = openBridge({ terms, secret, fetch: given as typeof globalThis.fetch });
  return {
    credential,
    health: new Health(),
    send: (call, _request, handler) => bridge.send(call, handler),
    getModels: () => Promise.reject(new Error('a package has no list of its models')),
    check: () => bridge.check(),
    async close() {
      await bridge.close();
      await agent.close();
    },
    async destroy() {
      await bridge.destroy();
      await agent.destroy();
    },
  };
}
