import { CHAT_COMPLETIONS, type RelayedRoute } from '#db/limits/limits.ts';
import type { TokenLimitMember, UpstreamTerms } from '#db/events/upstream-events.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { messages } from '#server/providers/anthropic/messages-route.ts';
import { anthropic } from '#server/providers/anthropic/provider.ts';
import { bridgeRequest } from '#server/providers/bridge/call-options.ts';
import { credentialHeader, DIALECT_TRAITS } from '#server/providers/openai/dialects.ts';
import { createOpenai } from '#server/providers/openai/openai.ts';
import type { Provider, ProviderCall } from '#server/providers/provider.ts';

/** How an upstream of these terms is spoken to. */
export type ProtocolBinding = {
  provider: Provider;
  /** What every request carries because of the credential, in pairs. */
  headersOf(secret: string): readonly string[];
  /** Where its list of models is, and what is sent along to get it, in pairs. */
  models: { path: string; headers: readonly string[] };
  /** The routes that it speaks, unless its terms say otherwise. */
  routes: readonly RelayedRoute[];
  tokenLimitMember: TokenLimitMember;
};

const MODELS = { path: '/models', headers: [] };
const ANTHROPIC_MODELS = { path: '/v1/models?limit=1000', headers: ['anthropic-version', '2023-06-01'] };

export function bindProtocol({ provider, dialect = 'other' }: UpstreamTerms): ProtocolBinding {
  switch (provider) {
    case 'openai': {
      const { routes, tokenLimitMember } = DIALECT_TRAITS[dialect];
      return {
        provider: withMessages(createOpenai(dialect)),
        headersOf: (secret) => credentialHeader(dialect, secret),
        models: MODELS,
        routes,
        tokenLimitMember,
      };
    }
    case 'anthropic':
      return {
        provider: anthropic,
        headersOf: (secret) => (secret === '' ? [] : ['x-api-key', secret]),
        models: ANTHROPIC_MODELS,
        routes: [CHAT_COMPLETIONS, '/v1/messages'],
        tokenLimitMember: 'max_tokens',
      };
    case 'bridge':
      // Its replies are made to be read as the convention; what is sent its package makes.
      return {
        provider: {
          ...createOpenai('other'),
          request: (call) =>
            call.route === CHAT_COMPLETIONS
              ? bridgeRequest(call)
              : new ApiError('model_not_found', { param: 'model' }),
        },
        headersOf: () => [],
        models: MODELS,
        routes: [CHAT_COMPLETIONS],
        tokenLimitMember: 'max_tokens',
      };
  }
}

/** A provider whose upstreams speak Anthropic's Messages besides. Their errors are told as its own are. */
function withMessages(provider: Provider): Provider {
  const of = ({ route }: ProviderCall): Provider => (route === '/v1/messages' ? messages : provider);
  return {
    request: (call) => of(call).request(call),
    sse: (call) => of(call).sse(call),
    json: (bytes, call) => of(call).json(bytes, call),
    parseError: (body) => provider.parseError(body),
  };
}
