import type { RelayedRoute } from '#db/limits/limits.ts';
import type { Dialect, TokenLimitMember } from '#db/events/upstream-events.ts';
import type { ReasoningForm } from '#server/providers/provider.ts';

/**
 * How OpenAI-compatible providers differ, as far as a request shows it. Differences in replies are detected
 * from the replies. Pure.
 */
export type DialectTraits = {
  /** The header that a credential goes in: as a bearer, or by itself. */
  credentialIn: 'authorization' | 'api-key';
  /** The provider's own base address; null where everyone runs their own server. */
  baseUrl: string | null;
  /** The routes that it implements; the terms of an upstream can override them. */
  routes: readonly RelayedRoute[];
  /**
   * The member that holds the limit on a chat's reply. Before 2024 there was only `max_tokens`, and all but
   * OpenAI's newest models still know it.
   */
  tokenLimitMember: TokenLimitMember;
  /** Whether it can be asked for usage in a stream. One that refuses to be asked reports it unasked. */
  supportsStreamOptions: boolean;
  /** Some providers refuse a chat that has the reasoning of earlier replies, others one that lacks it. */
  reasoning: ReasoningForm;
};

const CHAT = '/v1/chat/completions';
const COMPLETIONS = '/v1/completions';
const EMBEDDINGS = '/v1/embeddings';
const RESPONSES = '/v1/responses';
const MESSAGES = '/v1/messages';
const MODERATIONS = '/v1/moderations';
const RERANK = '/v1/rerank';
const IMAGES = '/v1/images/generations';
const IMAGE_EDITS = '/v1/images/edits';
const IMAGE_VARIATIONS = '/v1/images/variations';
const ALL_IMAGES = [IMAGES, IMAGE_EDITS, IMAGE_VARIATIONS] as const;
const TRANSCRIPTIONS = '/v1/audio/transcriptions';
const TRANSLATIONS = '/v1/audio/translations';
const SPEECH = '/v1/audio/speech';
const AUDIO = [TRANSCRIPTIONS, TRANSLATIONS, SPEECH] as const;

const PLAIN: DialectTraits = {
  credentialIn: 'authorization',
  baseUrl: null,
  routes: [CHAT, COMPLETIONS, EMBEDDINGS],
  tokenLimitMember: 'max_tokens',
  supportsStreamOptions: true,
  reasoning: 'none',
};
/** Self-hosted servers have caught up with all protocols that agents use. */
const SELF_HOSTED: DialectTraits = {
  ...PLAIN,
  routes: [CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, MESSAGES],
  reasoning: 'content',
};

export const DIALECT_TRAITS: Readonly<Record<Dialect, DialectTraits>> = {
  openai: {
    ...PLAIN,
    baseUrl: 'https://api.openai.com/v1',
    routes: [CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, MODERATIONS, ...ALL_IMAGES, ...AUDIO],
    tokenLimitMember: 'max_completion_tokens',
  },
  // Its v1 API, `https://RESOURCE.openai.azure.com/openai/v1`: the older one wants a version in the query.
  azure: {
    ...PLAIN,
    credentialIn: 'api-key',
    routes: [CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, IMAGES, IMAGE_EDITS, ...AUDIO],
    tokenLimitMember: 'max_completion_tokens',
  },
  openrouter: {
    ...PLAIN,
    baseUrl: 'https://openrouter.ai/api/v1',
    routes: [CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, MESSAGES],
    reasoning: 'details',
  },
  vllm: { ...SELF_HOSTED, routes: [...SELF_HOSTED.routes, RERANK, TRANSCRIPTIONS, TRANSLATIONS] },
  ollama: SELF_HOSTED,
  lmstudio: SELF_HOSTED,
  groq: {
    ...PLAIN,
    baseUrl: 'https://api.groq.com/openai/v1',
    routes: [CHAT, RESPONSES, ...AUDIO],
    tokenLimitMember: 'max_completion_tokens',
  },
  // Refuses every member that it does not know, `max_completion_tokens` and `include_usage` among them.
  mistral: {
    ...PLAIN,
    baseUrl: 'https://api.mistral.ai/v1',
    routes: [CHAT, EMBEDDINGS, MODERATIONS, TRANSCRIPTIONS],
    supportsStreamOptions: false,
  },
  deepseek: { ...PLAIN, baseUrl: 'https://api.deepseek.com', routes: [CHAT], reasoning: 'content' },
  gemini: {
    ...PLAIN,
    baseUrl: 'https://generativelanguage.googleapis.com/v1beta/openai',
    routes: [CHAT, EMBEDDINGS],
  },
  other: { ...PLAIN, reasoning: 'content' },
};

/** The header with the credential for an upstream of this dialect, as a pair; empty without a credential. */
export function credentialHeader(dialect: Dialect, secret: string): readonly string[] {
  if (secret === '') return [];
  return DIALECT_TRAITS[dialect].credentialIn === 'api-key'
    ? ['api-key', secret]
    : ['authorization', `Bearer ${secret}`];
}
