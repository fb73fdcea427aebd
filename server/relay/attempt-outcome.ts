import type { ApiError } from '#server/errors/api-error.ts';
import type { Provider, ProviderCall, ProviderRequest } from '#server/providers/provider.ts';
import type { ReplyWriter } from '#server/relay/client-writer.ts';
import type { Deadlines } from '#server/relay/deadlines.ts';
import type { OpenCall } from '#server/limits/open-calls.ts';
import type { AttemptFailure } from '#server/relay/failure.ts';
import type { CallSize } from '#server/limits/plausible-usage.ts';
import type { ReplyTimeouts } from '#server/relay/reply-clock.ts';
import { type CallEnd, type ReplyUsage, unsentEnd } from '#server/relay/reply-usage.ts';

/** The contract between a call and its attempts. */

/**
 * How an attempt ended, with the end that the call has if nothing follows, and with the usage that its
 * upstream may charge for; null: that of the end.
 */
export type AttemptOutcome =
  /** The client has its reply, as far as the reply went, or has disconnected. */
  | { kind: 'finished'; end: CallEnd; consumed: ReplyUsage | null; error: null }
  /** The relay ended the attempt before the client received anything: the client is to receive the error. */
  | { kind: 'stopped'; end: CallEnd; consumed: ReplyUsage | null; error: ApiError }
  /** The upstream failed before the client received anything: another upstream can take over. */
  | { kind: 'failed'; end: CallEnd; consumed: ReplyUsage | null; error: ApiError; failure: AttemptFailure }
  /** The call had ended already. */
  | { kind: 'discarded' };

/** The attempt at an upstream whose protocol can't state the call. */
export function unsupportedCall(error: ApiError): AttemptOutcome {
  const reason = 'upstream_rejected';
  const failure = { error, reason, cause: 'unsupported', retryAfterMs: null } as const;
  return { kind: 'failed', failure, end: unsentEnd(reason, error.status), consumed: null, error };
}

/** The call that an attempt belongs to. */
export type AttemptOwner = {
  /** Whether another upstream could take over if this attempt fails. */
  readonly canFallBack: boolean;
  /** The upstream has replied with success. @param afterMs since the request was sent. */
  replyStarted(afterMs: number): void;
  /** The reply has begun, and waits for the gate to be opened. */
  gateAwaited(): void;
  /** The head of a streamed reply is being sent to the client. */
  streamingStarted(): void;
  /** Whether the reply is read to its end although the client has disconnected. */
  readonly goesOn: boolean;
  /** A whole reply is being sent to the client from this slab, which is the call's now. */
  replyBuffered(slab: Buffer): void;
};

export type AttemptOptions = {
  owner: AttemptOwner;
  writer: ReplyWriter;
  provider: Provider;
  call: ProviderCall;
  request: ProviderRequest;
  size: CallSize;
  /** The memory that the call may use for the reply. */
  open: OpenCall;
  deadlines: Deadlines;
  timeouts: ReplyTimeouts;
  /** Limits a streamed reply; null: no limit. */
  budget: { nextAt: number; reached(counted: number): boolean } | null;
  isGateOpen: boolean;
};
