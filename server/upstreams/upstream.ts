import type { RelayedRoute } from '#db/limits/limits.ts';
import type { TokenLimitMember, UpstreamTerms } from '#db/events/upstream-events.ts';
import type { Protocol } from '#server/protocols/protocol.ts';
import type { Provider, ReasoningForm } from '#server/providers/provider.ts';
import { openBridgeConnection } from '#server/upstreams/bridge-connection.ts';
import { CircuitBreaker } from '#server/upstreams/circuit-breaker.ts';
import {
  type UpstreamConnectionPool,
  type ConnectionPoolOptions,
  openConnectionPool,
} from '#server/upstreams/connection-pool.ts';
import { Redactor } from '#server/wire/redactor.ts';
import { bindProtocol, type CountedProtocol } from '#server/upstreams/protocol-binding.ts';

/** A configured endpoint with its connections. */
export type Upstream = {
  readonly name: string;
  readonly terms: UpstreamTerms;
  readonly provider: Provider;
  /** Removes its credentials and address, which no reply to a client may contain. */
  readonly redactor: Redactor;
  readonly routes: ReadonlySet<RelayedRoute>;
  /** The protocols whose calls it takes as they are; the others are translated. */
  readonly protocols: ReadonlySet<Protocol>;
  readonly tokenLimitMember: TokenLimitMember;
  readonly reasoning: ReasoningForm;
  /** The protocol in which it counts the tokens of a request; null: it doesn't. */
  readonly counting: CountedProtocol | null;
  /** The protocol of the provider's own API, beside the one of its dialect; null: it has no other. */
  readonly ownProtocol: 'gemini' | null;
  /** The connections of each credential. */
  readonly pools: readonly UpstreamConnectionPool[];
  /** The circuit of the endpoint, whatever the credential. */
  readonly circuit: CircuitBreaker;
};

/** Makes the connector for an upstream of these terms, which decides what addresses are allowed. */
export type ConnectTo = (terms: UpstreamTerms) => ConnectionPoolOptions['connect'];

/** What an upstream is opened with. Secrets are here and in its pools, nowhere else. */
export type UpstreamDefinition = {
  name: string;
  terms: UpstreamTerms;
  /** A credential with an empty secret sends none. */
  credentials: readonly Credential[];
};
type Credential = { id: string | null; secret: string };

/** Stands for the base address of a package that knows its provider's address itself. */
const NOWHERE = 'https://unknown.invalid';

export function openUpstream({ name, terms, credentials }: UpstreamDefinition, connect: ConnectTo): Upstream {
  const base = new URL(terms.base_url ?? NOWHERE);
  const binding = bindProtocol(terms);
  const { provider, credentialHeaders: headersOf, models, routes, tokenLimitMember, own } = binding;
  const redactor = new Redactor(
    credentials.map(({ secret }) => secret),
    [base.hostname.replace(/^\[|\]$/g, '')],
  );
  const openPool = (credential: Credential): UpstreamConnectionPool =>
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
          own: own && { base: own.baseOf(base), headers: own.credentialHeaders(credential.secret) },
          connect: connect(terms),
        });
  return {
    name,
    terms,
    provider,
    redactor,
    routes: new Set(terms.routes ?? routes),
    protocols: new Set(binding.protocols),
    tokenLimitMember: terms.token_limit ?? tokenLimitMember,
    reasoning: binding.reasoning,
    counting: binding.counting,
    ownProtocol: own?.protocol ?? null,
    pools: credentials.map(openPool),
    circuit: new CircuitBreaker(),
  };
}
