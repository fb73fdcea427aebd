import type { RelayedRoute } from '#db/limits/limits.ts';
import type { TokenLimitMember, UpstreamTerms } from '#db/events/upstream-events.ts';
import type { Provider } from '#server/providers/provider.ts';
import { openBridgeConnection } from '#server/upstreams/bridge-connection.ts';
import { CircuitBreaker } from '#server/upstreams/circuit-breaker.ts';
import {
  type UpstreamConnectionPool,
  type ConnectionPoolOptions,
  openConnectionPool,
} from '#server/upstreams/connection-pool.ts';
import { bindProtocol } from '#server/upstreams/protocol-binding.ts';

/** A configured endpoint, as calls use it. */
export type Upstream = {
  readonly name: string;
  readonly terms: UpstreamTerms;
  readonly provider: Provider;
  /** Its host and port, which no message may tell a client. */
  readonly host: string;
  readonly routes: ReadonlySet<RelayedRoute>;
  readonly tokenLimitMember: TokenLimitMember;
  /** One for each credential. */
  readonly lines: readonly UpstreamConnectionPool[];
  /** Of the endpoint as such, whatever the credential. */
  readonly health: CircuitBreaker;
};

/** How connections are made to an upstream of these terms: it judges where they lead. */
export type ConnectTo = (terms: UpstreamTerms) => ConnectionPoolOptions['connect'];

/** What an upstream is opened with. The secrets are here and in its lines, nowhere else. */
export type UpstreamDefinition = {
  name: string;
  terms: UpstreamTerms;
  /** One without a secret sends none. */
  credentials: readonly Credential[];
};
type Credential = { id: string | null; secret: string };

/** A package may know by itself where its provider is. */
const NOWHERE = 'https://unknown.invalid';

export function openUpstream({ name, terms, credentials }: UpstreamDefinition, connect: ConnectTo): Upstream {
  const base = new URL(terms.base_url ?? NOWHERE);
  const { provider, headersOf, models, routes, tokenLimitMember } = bindProtocol(terms);
  const openOne = (credential: Credential): UpstreamConnectionPool =>
    terms.provider === 'bridge'
      ? openBridgeConnection({
          terms,
          secret: credential.secret,
          credential: credential.id,
          connect: connect(terms),
        })
      : openConnectionPool({
          base,
          credential: credential.id,
          headers: headersOf(credential.secret),
          models,
          connect: connect(terms),
        });
  return {
    name,
    terms,
    provider,
    host: base.host,
    routes: new Set(terms.routes ?? routes),
    tokenLimitMember: terms.token_limit ?? tokenLimitMember,
    lines: credentials.map(openOne),
    health: new CircuitBreaker(),
  };
}
