import { parseError } from '#server/providers/anthropic/errors.ts';
import { messages } from '#server/providers/anthropic/messages-route.ts';
import { readReply } from '#server/providers/anthropic/reply.ts';
import { messagesRequest } from '#server/providers/anthropic/request.ts';
import { MessageSse } from '#server/providers/anthropic/sse.ts';
import type { Provider, ProviderCall } from '#server/providers/provider.ts';
import { CHAT_COMPLETIONS } from '#db/limits/limits.ts';
import { ApiError } from '#server/errors/api-error.ts';

/**
 * Upstreams with Anthropic's Messages API. Chat completions are translated, there and back; calls of
 * the Messages themselves pass as they are.
 * @param nowMs the time: a message does not say when it was made, and a chat completion does.
 */
export function createAnthropic(nowMs: () => number): Provider {
  const created = (): number => Math.floor(nowMs() / 1_000);
  const isChat = ({ route }: ProviderCall): boolean => route === CHAT_COMPLETIONS;
  return {
    request(call) {
      if (isChat(call)) return messagesRequest(call);
      return call.route === '/v1/messages'
        ? messages.request(call)
        : new ApiError('model_not_found', { param: 'model' });
    },
    sse: (call) =>
      isChat(call) ? new MessageSse(created(), call.parsed.includeUsage, call.redactor) : messages.sse(call),
    json: (bytes, call) => (isChat(call) ? readReply(bytes, created()) : messages.json(bytes, call)),
    parseError: parseError,
  };
}

export const anthropic: Provider = createAnthropic(Date.now);
