import { CHAT_COMPLETIONS, type RelayedRoute } from '#db/limits/limits.ts';
import type { TokenLimitMember, UpstreamTerms } from '#db/events/upstream-events.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { messages } from '#server/providers/anthropic/messages-route.ts';
import { anthropic } from '#server/providers/anthropic/provider.ts';
import { bridgeRequest } from '#server/providers/bridge/call-options.ts';
import { credentialHeader, DIALECT_TRAITS } from '#server/providers/openai/dialects.ts';
import { createOpenai } from '#server/providers/openai/openai.ts';
import { gemini } from '#server/providers/gemini/provider.ts';
import { type Protocol, protocolOf } from '#server/protocols/protocol.ts';
import type { Provider, ProviderCall, ReasoningForm } from '#server/providers/provider.ts';

/** The protocol of an upstream: how requests to it are written, and its replies are read. */
export type ProtocolBinding = {
  provider: Provider;
  /** The headers that authenticate every request, in pairs. */
  credentialHeaders(secret: string): readonly string[];
  /** The path of its list of models, and the headers of that request, in pairs. */
  models: { path: string; headers: readonly string[] };
  /** The routes that it supports, unless its terms name others. */
  routes: readonly RelayedRoute[];
  /** The protocols whose calls it takes as they are. */
  protocols: readonly Protocol[];
  tokenLimitMember: TokenLimitMember;
  /** The protocol in which it counts the tokens of a request; null: it doesn't. */
  counting: CountedProtocol | null;
  /** The provider's own API, beside the one of its dialect; null: it has no other. */
  own: OwnApi | null;
  /** How a chat that was translated from another protocol has the reasoning of earlier replies. */
  reasoning: ReasoningForm;
};

/** Protocols that have requests for the number of tokens. */
export type CountedProtocol = 'messages' | 'gemini';

/** Gemini's own API, which has methods that its compatible one lacks. */
type OwnApi = {
  protocol: 'gemini';
  /** Its base address, from that of the upstream. */
  baseOf(base: URL): URL;
  credentialHeaders(secret: string): readonly string[];
};
const GEMINI: OwnApi = {
  protocol: 'gemini',
  baseOf: (compatible) => new URL(compatible.href.replace(/\/openai\/?$/, '')),
  credentialHeaders: (secret) => (secret === '' ? [] : ['x-goog-api-key', secret]),
};

const MODELS = { path: '/models', headers: [] };
const GEMINI_MODELS = { path: '/models?pageSize=1000', headers: [] };
const ANTHROPIC_MODELS = { path: '/v1/models?limit=1000', headers: ['anthropic-version', '2023-06-01'] };

export function bindProtocol(terms: UpstreamTerms): ProtocolBinding {
  const { provider, dialect = 'other' } = terms;
  switch (provider) {
    case 'openai': {
      const { routes, tokenLimitMember, reasoning } = DIALECT_TRAITS[dialect];
      return {
        provider: withMessages(createOpenai(dialect)),
        credentialHeaders: (secret) => credentialHeader(dialect, secret),
        models: MODELS,
        routes,
        protocols: (terms.routes ?? routes).map(protocolOf).filter((each) => each !== null),
        tokenLimitMember,
        reasoning,
        counting: dialect === 'gemini' ? 'gemini' : dialect === 'vllm' ? 'messages' : null,
        own: dialect === 'gemini' ? GEMINI : null,
      };
    }
    case 'anthropic':
      return {
        provider: anthropic,
        credentialHeaders: (secret) => (secret === '' ? [] : ['x-api-key', secret]),
        models: ANTHROPIC_MODELS,
        routes: [CHAT_COMPLETIONS, '/v1/messages'],
        protocols: ['messages'],
        tokenLimitMember: 'max_tokens',
        reasoning: 'details',
        counting: 'messages',
        own: null,
      };
    case 'bridge':
      // The bridge writes replies in OpenAI's format; its package writes the requests.
      return {
        provider: {
          ...createOpenai('other'),
          request: (call) =>
            call.route === CHAT_COMPLETIONS
              ? bridgeRequest(call)
              : new ApiError('model_not_found', { param: 'model' }),
        },
        credentialHeaders: () => [],
        models: MODELS,
        routes: [CHAT_COMPLETIONS],
        protocols: ['chat'],
        tokenLimitMember: 'max_tokens',
        reasoning: 'content',
        counting: null,
        own: null,
      };
    case 'gemini':
      return {
        provider: gemini,
        credentialHeaders: (secret) => (secret === '' ? [] : ['x-goog-api-key', secret]),
        models: GEMINI_MODELS,
        // Its own API has no route; chats are translated.
        routes: [CHAT_COMPLETIONS],
        protocols: ['gemini'],
        tokenLimitMember: 'max_tokens',
        reasoning: 'details',
        counting: 'gemini',
        own: { ...GEMINI, baseOf: (base) => base },
      };
  }
}

/**
 * A provider whose upstreams support Anthropic's Messages as well. Their errors have the provider's own
 * format.
 */
function withMessages(provider: Provider): Provider {
  const of = ({ route }: ProviderCall): Provider => (route === '/v1/messages' ? messages : provider);
  return {
    request: (call) => of(call).request(call),
    sse: (call) => of(call).sse(call),
    json: (bytes, call) => of(call).json(bytes, call),
    parseError: (body) => provider.parseError(body),
  };
}
