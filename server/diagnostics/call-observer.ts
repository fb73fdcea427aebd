import type { EventOf, RequestEvent } from '#db/events/events.ts';
import type { Attempt } from '#db/events/upstream-events.ts';
import type { ApiError } from '#server/errors/api-error.ts';

/** A relayed call, when only its headers were read. */
export type CalledRequest = {
  requestId: string;
  method: string;
  route: string;
  isTls: boolean;
  /** The W3C trace context that the client sent, each null unless it is valid. */
  traceparent: string | null;
  tracestate: string | null;
};

/** The trace of one call. */
export type CallTrace = {
  readonly traceId: string;
  /** The next attempt begins. @returns the `traceparent` that its upstream receives. */
  attemptParent(): string;
  attemptEnded(attempt: Attempt): void;
  rejected(refusal: Pick<ApiError, 'code' | 'status'>): void;
  /** The call is settled; the event is not durable yet. */
  settled(event: EventOf<'request.settled'>): void;
  /** Nothing of the call runs any more. */
  ended(): void;
};

/** The W3C trace context that an upstream receives. */
export type TraceContext = { traceparent: string; tracestate: string | null };

/** An event that is appended by a transaction of its own. */
export type ApartEvent = EventOf<'request.accepted' | 'request.settled' | 'request.abandoned'>;

/**
 * What happens to the calls of a process, for metrics and traces. The relay calls it at moments that it has
 * anyway. An observer doesn't throw, doesn't wait, and keeps nothing of a prompt or a reply.
 */
export type CallObserver = {
  /** A relayed call begins. @returns null: it is not traced. */
  called(request: CalledRequest): CallTrace | null;
  /** A request was replied to with an error before it was accepted. */
  rejected(refusal: Pick<ApiError, 'code' | 'status'>): void;
  /** An attempt at an upstream has ended. */
  attempted(attempt: Attempt): void;
  /** An event of a request is durable, at this position of the log: each event once. */
  recorded(event: RequestEvent, position: number): void;
  /** Events of requests that no call here waits for are durable: of batches and background responses. */
  recordedApart(events: readonly ApartEvent[]): void;
  /** A batch of events was committed. */
  appended(events: number, durationMs: number): void;
  /** A lease request was answered. */
  exchanged(durationMs: number): void;
  /** So many open requests of a dead instance were recorded as abandoned. */
  recovered(abandoned: number): void;
};
