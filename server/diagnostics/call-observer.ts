import type { RequestEvent } from '#db/events/events.ts';
import type { Attempt } from '#db/events/upstream-events.ts';
import type { ApiError } from '#server/errors/api-error.ts';

/**
 * What happens to the calls of a process, for metrics and traces. The relay calls it at moments that it has
 * anyway. An observer doesn't throw, doesn't wait, and keeps nothing of a prompt or a reply.
 */
export type CallObserver = {
  /** A request was replied to with an error before it was accepted. */
  rejected(refusal: Pick<ApiError, 'code' | 'status'>): void;
  /** An attempt at an upstream has ended. */
  attempted(attempt: Attempt): void;
  /** An event of a request is durable, at this position of the log: each event once. */
  recorded(event: RequestEvent, position: number): void;
  /** A batch of events was committed. */
  appended(events: number, durationMs: number): void;
  /** A lease request was answered. */
  exchanged(durationMs: number): void;
  /** So many open requests of a dead instance were recorded as abandoned. */
  recovered(abandoned: number): void;
};
