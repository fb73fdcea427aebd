import type { EndReason, UsageSource } from '#db/events/endings.ts';
import type { EventOf, RequestEvent } from '#db/events/events.ts';

/** The events of a relayed request: neither a rejection, a correction, a count of
 * tokens nor an exchanged token is one. */
export type RequestLifeEvent = Exclude<
  RequestEvent,
  EventOf<'request.rejected' | 'usage.adjusted' | 'tokens.counted' | 'workload.exchanged'>
>;

/** One relayed request in the log: accepted, perhaps extended, then ended exactly once. */
export type Request = {
  id: string;
  account: string;
  key: string;
  model: string;
  /** The tokens reserved for it, until it ended. */
  holdTokens: number;
  /** Null where its model had no price. */
  holdCostNanousd: number | null;
  end: null | {
    reason: EndReason;
    usageSource: UsageSource;
    inputTokens: number;
    outputTokens: number;
  };
};

/** Something without a beginning or after an end, or a second of either: promise P2 is broken. */
export class RequestOrderError extends Error {
  override name = 'RequestOrderError';
}

/**
 * The request after one more event of its own.
 * @throws {RequestOrderError} when the event can't follow the previous ones.
 */
export function evolveRequest(request: Request | undefined, event: RequestLifeEvent): Request {
  switch (event.type) {
    case 'request.accepted':
      if (request) throw new RequestOrderError(`request ${event.request} was accepted twice`);
      return {
        id: event.request,
        account: event.account,
        key: event.key,
        model: event.model,
        ...holdOf(event),
        end: null,
      };
    case 'request.extended':
      if (!request)
        throw new RequestOrderError(`request ${event.request} was extended without being accepted`);
      if (request.end) throw new RequestOrderError(`request ${event.request} was extended after its end`);
      return { ...request, ...holdOf(event) };
    case 'request.settled':
      return ended(request, event, { inputTokens: event.input_tokens, outputTokens: event.output_tokens });
    case 'request.abandoned':
      return ended(request, event, { inputTokens: 0, outputTokens: 0 });
  }
}

function holdOf({ hold_tokens, hold_cost_nanousd }: EventOf<'request.accepted' | 'request.extended'>) {
  return { holdTokens: hold_tokens, holdCostNanousd: hold_cost_nanousd ?? null };
}

function ended(
  request: Request | undefined,
  event: EventOf<'request.settled' | 'request.abandoned'>,
  tokens: { inputTokens: number; outputTokens: number },
): Request {
  if (!request) throw new RequestOrderError(`request ${event.request} ended without being accepted`);
  if (request.end) throw new RequestOrderError(`request ${event.request} ended twice`);
  return { ...request, end: { reason: event.end_reason, usageSource: event.usage_source, ...tokens } };
}
