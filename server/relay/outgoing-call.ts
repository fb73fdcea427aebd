import { ApiError } from '#server/errors/api-error.ts';
import { isTranslated, translateCall } from '#server/protocols/translate.ts';
import type { AttemptOptions } from '#server/relay/attempt-outcome.ts';
import type { Reply } from '#server/relay/reply.ts';
import type { ProviderCall } from '#server/providers/provider.ts';
import type { Upstream } from '#server/upstreams/upstream.ts';
import { OPENAI_ERRORS } from '#server/wire/error-format.ts';

/** A call in the protocol of its upstream, and what reads its reply for the client. */
type OutgoingCall = Pick<AttemptOptions, 'provider' | 'call' | 'request'>;

/**
 * A call as an upstream receives it: in the client's own words where the upstream supports the route, else
 * translated.
 * @returns a refusal where the upstream's protocol can't state the call.
 */
export function outgoingCall(
  call: ProviderCall,
  { provider, routes, tokenLimitMember, reasoning }: Upstream,
  { errorFormat = OPENAI_ERRORS, requestId }: Reply,
): OutgoingCall | ApiError {
  const { route } = call;
  if (routes.has(route) || !isTranslated(route)) {
    const request = provider.request(call);
    return request instanceof ApiError ? request : { provider, call, request };
  }
  const translation = translateCall(call, route, provider, {
    tokenLimitMember,
    reasoning,
    errorEvent: (refusal, eventsBefore) => errorFormat.event(refusal, requestId, eventsBefore),
    nowMs: Date.now(),
  });
  if (translation instanceof ApiError) return translation;
  const { provider: translating, call: translated, losses } = translation;
  const request = translating.request(translated);
  if (request instanceof ApiError) return request;
  return { provider: translating, call: translated, request: { ...request, untranslated: losses } };
}
