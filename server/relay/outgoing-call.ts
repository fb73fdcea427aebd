import { ApiError } from '#server/errors/api-error.ts';
import { embeddingCall } from '#server/protocols/gemini/embeddings.ts';
import { protocolOf } from '#server/protocols/protocol.ts';
import { translateCall } from '#server/protocols/translate.ts';
import type { AttemptOptions } from '#server/relay/attempt-outcome.ts';
import type { Admitted } from '#server/relay/admitted.ts';
import { tokenLimitOf } from '#server/relay/call-estimate.ts';
import type { OnStored, ProviderCall } from '#server/providers/provider.ts';
import type { Target } from '#server/upstreams/target.ts';
import type { Upstream } from '#server/upstreams/upstream.ts';
import { OPENAI_ERRORS } from '#server/wire/error-format.ts';

/** A call in the protocol of its upstream, and what reads its reply for the client. */
type OutgoingCall = Pick<AttemptOptions, 'provider' | 'call' | 'request'>;

/** A call as it is sent to a target. @param onStored gets the id of a reply that the provider stores. */
export function providerCall(
  { body, parsed, route, model: name, estimate, hold, protocolHeaders, reply }: Admitted,
  { upstream, model }: Target,
  onStored: OnStored | null,
): ProviderCall {
  return {
    route,
    body,
    parsed,
    model: model ?? name,
    tokenLimit: tokenLimitOf(estimate, hold),
    tokenLimitMember: upstream.tokenLimitMember,
    protocolHeaders,
    redactor: upstream.redactor,
    trace: reply.diagnostics?.attemptContext() ?? null,
    onStored,
  };
}

/**
 * A call as an upstream receives it: in the client's own words where the upstream has the client's protocol,
 * else translated.
 * @returns a refusal where the upstream's protocol can't state the call.
 */
export function outgoingCall(
  call: ProviderCall,
  upstream: Upstream,
  { protocol, reply: { errorFormat = OPENAI_ERRORS, requestId } }: Pick<Admitted, 'protocol' | 'reply'>,
): OutgoingCall | ApiError {
  const { provider, protocols } = upstream;
  const from = protocol ?? protocolOf(call.route);
  if (call.parsed.isBackground === true && !protocols.has('responses'))
    return new ApiError('invalid_value', {
      message: 'No upstream of this model has background responses. Set "background" to false.',
      param: 'background',
    });
  if (protocol === 'gemini' && call.route === '/v1/embeddings')
    return embeddingCall(call, provider, upstream.ownProtocol === 'gemini');
  if (from === null || protocols.has(from)) {
    const request = provider.request(call);
    return request instanceof ApiError ? request : { provider, call, request };
  }
  const translation = translateCall(call, from, upstream, {
    errorEvent: (refusal, eventsBefore) => errorFormat.event(refusal, requestId, eventsBefore),
    nowMs: Date.now(),
  });
  if (translation instanceof ApiError) return translation;
  const { provider: translating, call: translated, losses } = translation;
  const request = translating.request(translated);
  if (request instanceof ApiError) return request;
  return { provider: translating, call: translated, request: { ...request, untranslated: losses } };
}
