import type { EndReason, RequestEvent, UsageSource } from '#db/events.ts';

/** One relayed call as the log tells it: accepted, then ended exactly once. */
export type Request = {
  id: string;
  account: string;
  key: string;
  model: string;
  holdTokens: number;
  end: null | {
    reason: EndReason;
    usageSource: UsageSource;
    inputTokens: number;
    outputTokens: number;
  };
};

/** An ending without a beginning, or a second of either: promise P2 is broken. */
export class RequestOrderError extends Error {
  override name = 'RequestOrderError';
}

/**
 * The request after one more event of its own.
 * @throws {RequestOrderError} when the event can't follow what came before.
 */
export function evolveRequest(request: Request | undefined, event: RequestEvent): Request {
  if (event.type === 'request.accepted') {
    if (request) throw new RequestOrderError(`request ${event.request} was accepted twice`);
    return {
      id: event.request,
      account: event.account,
      key: event.key,
      model: event.model,
      holdTokens: event.hold_tokens,
      end: null,
    };
  }
  if (!request) throw new RequestOrderError(`request ${event.request} ended without being accepted`);
  if (request.end) throw new RequestOrderError(`request ${event.request} ended twice`);
  const tokens =
    event.type === 'request.settled'
      ? { inputTokens: event.input_tokens, outputTokens: event.output_tokens }
      : { inputTokens: 0, outputTokens: 0 };
  return { ...request, end: { reason: event.end_reason, usageSource: event.usage_source, ...tokens } };
}
