import type { RelayedRoute } from '#db/limits/limits.ts';
import type { Dialect, TokenLimitMember } from '#db/events/upstream-events.ts';

/**
 * How those who speak the convention differ, as far as a request shows it. What differs in replies is told
 * from the replies. Pure.
 */
export type DialectTraits = {
  /** The header that a credential goes in: as a bearer, or by itself. */
  credentialIn: 'authorization' | 'api-key';
  /** Where the provider is, as it says itself; null where everybody runs their own. */
  baseUrl: string | null;
  /** What it speaks by itself; the terms of an upstream may say otherwise. */
  routes: readonly RelayedRoute[];
  /**
   * What it reads a limit on a chat's reply from. Before 2024 there was only `max_tokens`, and all but
   * OpenAI's newest models still know it.
   */
  tokenLimitMember: TokenLimitMember;
  /** Whether it can be asked for usage in a stream. One that refuses to be asked reports it unasked. */
  supportsStreamOptions: boolean;
};

const CHAT = '/v1/chat/completions';
const COMPLETIONS = '/v1/completions';
const EMBEDDINGS = '/v1/embeddings';
const RESPONSES = '/v1/responses';
const MESSAGES = '/v1/messages';

const PLAIN: DialectTraits = {
  credentialIn: 'authorization',
  baseUrl: null,
  routes: [CHAT, COMPLETIONS, EMBEDDINGS],
  tokenLimitMember: 'max_tokens',
  supportsStreamOptions: true,
};
/** Servers for one's own machines have caught up with all that agents speak. */
const SELF_HOSTED: DialectTraits = { ...PLAIN, routes: [CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, MESSAGES] };

export const DIALECT_TRAITS: Readonly<Record<Dialect, DialectTraits>> = {
  openai: {
    ...PLAIN,
    baseUrl: 'https://api.openai.com/v1',
    routes: [CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES],
    tokenLimitMember: 'max_completion_tokens',
  },
  // Its v1 API, `https://RESOURCE.openai.azure.com/openai/v1`: the older one wants a version in the query.
  azure: {
    ...PLAIN,
    credentialIn: 'api-key',
    routes: [CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES],
    tokenLimitMember: 'max_completion_tokens',
  },
  openrouter: {
    ...PLAIN,
    baseUrl: 'https://openrouter.ai/api/v1',
    routes: [CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, MESSAGES],
  },
  vllm: SELF_HOSTED,
  ollama: SELF_HOSTED,
  lmstudio: SELF_HOSTED,
  groq: {
    ...PLAIN,
    baseUrl: 'https://api.groq.com/openai/v1',
    routes: [CHAT, RESPONSES],
    tokenLimitMember: 'max_completion_tokens',
  },
  // Refuses every member that it does not know, `max_completion_tokens` and `include_usage` among them.
  mistral: {
    ...PLAIN,
    baseUrl: 'https://api.mistral.ai/v1',
    routes: [CHAT, EMBEDDINGS],
    supportsStreamOptions: false,
  },
  deepseek: { ...PLAIN, baseUrl: 'https://api.deepseek.com', routes: [CHAT] },
  gemini: {
    ...PLAIN,
    baseUrl: 'https://generativelanguage.googleapis.com/v1beta/openai',
    routes: [CHAT, EMBEDDINGS],
  },
  other: PLAIN,
};

/** The header that tells an upstream of this dialect who calls, as a pair; none without a credential. */
export function credentialHeader(dialect: Dialect, secret: string): readonly string[] {
  if (secret === '') return [];
  return DIALECT_TRAITS[dialect].credentialIn === 'api-key'
    ? ['api-key', secret]
    : ['authorization', `Bearer ${secret}`];
}
