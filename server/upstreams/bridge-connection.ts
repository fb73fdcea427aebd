import { Agent, fetch } from 'undici';
import type { UpstreamTerms } from '#db/events/upstream-events.ts';
import { openBridge } from '#server/providers/bridge/bridge.ts';
import { CircuitBreaker } from '#server/upstreams/circuit-breaker.ts';
import {
  CONNECTIONS,
  type UpstreamConnectionPool,
  type ConnectionPoolOptions,
} from '#server/upstreams/connection-pool.ts';

export type BridgeConnectionOptions = Pick<ConnectionPoolOptions, 'credential' | 'connect'> & {
  terms: Pick<UpstreamTerms, 'package' | 'base_url' | 'options'>;
  secret: string;
};

/** A line whose calls go out through a provider package. */
export type BridgeConnection = UpstreamConnectionPool & {
  /** Whether the package can be used: null, or one line for the operator that says what to do. */
  check(): Promise<string | null>;
};

/**
 * Opens a line through a provider package. Its connections are made as those of any line, with a pool
 * of their own for each credential; what the package does beside its requests, such as fetching a
 * token for a cloud, goes its own way.
 */
export function openBridgeConnection({
  terms,
  secret,
  credential,
  connect,
}: BridgeConnectionOptions): BridgeConnection {
  const agent = new Agent({ ...CONNECTIONS, connect });
  // The same function as Node's own, whose types are of another version.
  const given = (input: unknown, init: unknown): unknown =>
    fetch(input as string, { ...(init as object), dispatcher: agent });
  const bridge = openBridge({ terms, secret, fetch: given as typeof globalThis.fetch });
  return {
    credential,
    health: new CircuitBreaker(),
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
