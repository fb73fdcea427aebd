import type { RelayedRoute } from '#db/limits/limits.ts';

/** The protocols that clients and upstreams converse with models in. Pure. */
export const PROTOCOLS = ['chat', 'responses', 'messages', 'gemini'] as const;
export type Protocol = (typeof PROTOCOLS)[number];

/** The protocol of a route's calls, which can be translated into another; null: they can't be. */
export function protocolOf(route: RelayedRoute): Protocol | null {
  switch (route) {
    case '/v1/chat/completions':
      return 'chat';
    case '/v1/responses':
      return 'responses';
    case '/v1/messages':
      return 'messages';
    case '/v1/completions':
    case '/v1/embeddings':
    case '/v1/moderations':
    case '/v1/rerank':
    case '/v1/images/generations':
    case '/v1/images/edits':
    case '/v1/images/variations':
    case '/v1/audio/transcriptions':
    case '/v1/audio/translations':
    case '/v1/audio/speech':
      return null;
  }
}

/** In which protocol an upstream without the client's is called. Chat completions are the most alike. */
const PREFERRED: readonly Protocol[] = ['chat', 'messages', 'responses', 'gemini'];

/** @returns null: the upstream has none. */
export const preferredOf = (protocols: ReadonlySet<Protocol>): Protocol | null =>
  PREFERRED.find((protocol) => protocols.has(protocol)) ?? null;
