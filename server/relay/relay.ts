import type { EndReason } from '#db/events/endings.ts';
import type { Amounts } from '#db/limits/meters.ts';
import type { Key } from '#db/fold/key.ts';
import type { Attribution } from '#server/attribution/attribution.ts';
import type { ActiveInstance } from '#server/instance/server-instance.ts';
import type { Idempotency } from '#server/idempotency/idempotency.ts';
import type { ErrorCode } from '#server/errors/api-error.ts';
import type { FencingGuard } from '#db/instances/fencing-guard.ts';
import type { CallHistory } from '#server/limits/call-history.ts';
import type { AddressSet } from '#server/access/networks.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import type { CallObserver } from '#server/diagnostics/call-observer.ts';
import type { RequestLog } from '#server/diagnostics/request-log.ts';
import type { RejectionLog } from '#server/instance/rejection-log.ts';
import type { RequestContext } from '#server/access/request-context.ts';
import type { CountLimiter } from '#server/counting/count-limiter.ts';
import type { Deadlines } from '#server/relay/deadlines.ts';
import type { Registry } from '#db/registry.ts';
import type { OpenCalls } from '#server/limits/open-calls.ts';
import type { ReplyTimeouts } from '#server/relay/reply-clock.ts';
import type { SecretUse } from '#server/secrets/secret-use.ts';
import type { BatchStore } from '#server/batches/batch-store.ts';
import type { BackgroundStore } from '#server/stored/background-store.ts';
import type { RouteBack } from '#server/stored/route-back.ts';
import type { Upstreams } from '#server/upstreams/upstreams.ts';

/** An admitted call that has not ended, with the facts of its admission. */
export type RunningCall = {
  readonly request: string;
  readonly key: Key;
  readonly context: RequestContext;
  /** Null for the stream of a response that was made before. */
  readonly model: string | null;
  /** Tokens of its reply that went through so far, by our count; 0 for one that is not streamed. */
  readonly relayedTokens: number;
  /**
   * What the call is charged if it is lost and so many tokens of its reply went through; null: its whole
   * reservation, because it is not streamed or has a hard limit, which its usage must not exceed unseen.
   */
  chargeAt(outputTokens: number): Amounts | null;
  /** Ends the call with an error, in whatever form the client can still receive. */
  fail(code: ErrorCode, reason: EndReason): void;
};

/**
 * Where a process is on its way to its end. `serving`: no stop was asked for. `lame_duck`: `/readyz` replies
 * 503 and everything is served. `draining`: no connection is accepted any more; calls on open ones are served
 * to their end. `stopped`: the time for that is over, and calls are rejected.
 */
export type Phase = 'serving' | 'lame_duck' | 'draining' | 'stopped';

/** What the relayed calls of a process share. */
export type Relay = {
  readModel: ReadModel;
  pepper: Buffer;
  instance: ActiveInstance;
  fencing: FencingGuard;
  rejections: RejectionLog;
  attribution: Attribution;
  requestLog: RequestLog;
  /** Sees what happens to calls; null: metrics and traces are off. */
  observer: CallObserver | null;
  /** By which secret keys that are being rotated were used. */
  secretUse: SecretUse;
  history: CallHistory;
  /** Counts of tokens in the current minute. */
  counts: CountLimiter;
  upstreams: Upstreams;
  deadlines: Deadlines;
  timeouts: ReplyTimeouts;
  trustedProxies: AddressSet | null;
  maxBodyBytes: number;
  /** All calls from their headers to the end of their replies. */
  openCalls: OpenCalls;
  overlapped: boolean;
  /** Where responses are stored. */
  routeBack: RouteBack;
  backgroundStore: BackgroundStore;
  batchStore: BatchStore;
  /** Keys of requests that are sent several times. */
  idempotency: Idempotency;
  phase: Phase;
  /** What runs at this moment, so that it can be ended at a shutdown, a fence or a revocation. */
  running: Registry<RunningCall>;
};
