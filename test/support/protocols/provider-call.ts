import { ApiError } from '#server/errors/api-error.ts';
import type { ProviderCall } from '#server/providers/provider.ts';
import { NOTHING_TO_REDACT } from '#server/wire/redactor.ts';
import { parseChatCompletion } from '#server/wire/request-parser.ts';

/** A call as a provider gets it, with a chat as its body. */
export function providerCallOf(
  body = '{"model":"m","stream":true,"messages":[]}',
  model = 'm',
): ProviderCall {
  const bytes = Buffer.from(body);
  const parsed = parseChatCompletion(bytes);
  if (parsed instanceof ApiError) throw parsed;
  return {
    route: '/v1/chat/completions',
    body: { bytes, slab: null },
    parsed,
    model,
    tokenLimit: null,
    tokenLimitMember: 'max_tokens',
    redactor: NOTHING_TO_REDACT,
  };
}
