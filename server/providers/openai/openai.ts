import type { Dialect } from '#db/events/upstream-events.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { DIALECT_TRAITS } from '#server/providers/openai/dialects.ts';
import { parseError } from '#server/providers/openai/errors.ts';
import { parseTranscript } from '#server/providers/openai/audio-reply.ts';
import { AudioSse } from '#server/providers/openai/audio-sse.ts';
import { formRequest } from '#server/providers/openai/form-request.ts';
import { responses } from '#server/providers/openai/responses.ts';
import type { Provider, ProviderCall, ProviderRequest } from '#server/providers/provider.ts';
import { type BodyChanges, bodyForUpstream } from '#server/wire/splice-body.ts';
import { parseImagesReply } from '#server/providers/openai/images-reply.ts';
import { parseJsonReply } from '#server/providers/openai/json-reply.ts';
import { ChatSse } from '#server/providers/openai/sse.ts';

/**
 * OpenAI's own protocol, in any dialect: bytes pass unchanged, both ways. In a request the
 * model's name may change, and what only the relay asks for is put in; of a streamed reply the usage is
 * removed that only the relay requested. Responses are a protocol of their own. Pure.
 */
export function createOpenai(dialect: Dialect): Provider {
  const { supportsStreamOptions } = DIALECT_TRAITS[dialect];
  const isResponses = ({ route }: ProviderCall): boolean => route === '/v1/responses';
  return {
    request: (call) => (isResponses(call) ? responses.request(call) : requestOf(call, supportsStreamOptions)),
    sse: (call) => {
      if (isResponses(call)) return responses.sse(call);
      const { sse, includeUsage, replies } = call.parsed;
      return replies ? new AudioSse(call.redactor) : new ChatSse(sse && !includeUsage, call.redactor);
    },
    json: (bytes, call) => {
      if (isResponses(call)) return responses.json(bytes, call);
      if (call.parsed.replies === 'text') return parseTranscript(bytes);
      return call.parsed.makesImages === true ? parseImagesReply(bytes) : parseJsonReply(bytes);
    },
    parseError: parseError,
  };
}

function requestOf(call: ProviderCall, supportsStreamOptions: boolean): ProviderRequest | ApiError {
  const { route, body, parsed: asked, model } = call;
  if (asked.form !== undefined) return formRequest(call);
  const limit = limitOf(call);
  if (limit === null) return new ApiError('route_not_found');
  const unsupported =
    !supportsStreamOptions && asked.scanned.members.has('stream_options') ? ['stream_options'] : [];
  return {
    path: route.slice('/v1'.length),
    body: bodyForUpstream(body, asked, { model, supportsStreamOptions, ...limit }),
    headers: [],
    unsupported,
  };
}

/** How a reply is limited on this route; null: the route is not supported here. */
function limitOf({
  route,
  tokenLimit,
  tokenLimitMember,
}: ProviderCall): Pick<BodyChanges, 'tokenLimit' | 'tokenLimitMember'> | null {
  switch (route) {
    case '/v1/chat/completions':
      return { tokenLimit, tokenLimitMember };
    case '/v1/completions':
      // Older than the other name.
      return { tokenLimit, tokenLimitMember: 'max_tokens' };
    case '/v1/embeddings':
    case '/v1/moderations':
    case '/v1/rerank':
    case '/v1/images/generations':
      // Nothing is written, or images, which no member limits.
      return { tokenLimit: null, tokenLimitMember };
    case '/v1/audio/speech':
      return { tokenLimit: null, tokenLimitMember };
    // These bodies are forms.
    case '/v1/images/edits':
    case '/v1/images/variations':
    case '/v1/audio/transcriptions':
    case '/v1/audio/translations':
    case '/v1/responses':
    case '/v1/messages':
      return null;
  }
}
