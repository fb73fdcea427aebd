import { Agent, fetch } from 'undici';
import type { UpstreamTerms } from '#db/events/upstream-events.ts';
import { openBridge } from '#server/providers/bridge/bridge.ts';
import { ModelListError } from '#server/upstreams/model-list-error.ts';
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

/** A connection pool whose calls go out through a provider package. */
export type BridgeConnection = UpstreamConnectionPool & {
  /** Loads the package: null, or one line for the operator that says what to do. */
  check(): Promise<string | null>;
};

/**
 * Opens connections through a provider package. They are made as those of any upstream, with a pool per
 * credential; other requests of the package, such as fetching a token for a cloud, go their own way.
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
    circuit: new CircuitBreaker(),
    send: (call, _request, handler) => bridge.send(call, handler),
    // A package has no routes beside that of a call.
    exchange: () => Promise.reject(new Error('a provider package stores no responses')),
    getModels: () => Promise.reject(new ModelListError({ kind: 'not_supported' })),
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
