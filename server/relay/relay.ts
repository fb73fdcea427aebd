import type { EndReason } from '#db/events/events.ts';
import type { Key } from '#db/fold/key.ts';
import type { Appender } from '#server/instance/appender.ts';
import type { Code } from '#server/errors/api-error.ts';
import type { FencingGuard } from '#server/instance/fencing-guard.ts';
import type { CompletionEstimates } from '#server/limits/estimate.ts';
import type { LeaseClient } from '#server/limits/lease-client.ts';
import type { AddressSet } from '#server/access/networks.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import type { RejectionLog } from '#server/instance/rejection-log.ts';
import type { Caller } from '#server/access/caller.ts';
import type { Deadlines } from '#server/relay/deadlines.ts';
import type { DeliveryOptions } from '#server/relay/delivery-options.ts';
import type { SecretUse } from '#server/secrets/secret-use.ts';
import type { Upstreams } from '#server/upstreams/upstreams.ts';

/** This process's place among the instances: it may append, and spend what it has leased. */
export type Seat = { appender: Appender; limits: LeaseClient };

/** A call that has been admitted and not ended, with what it was admitted as. */
export type Running = {
  readonly request: string;
  readonly key: Key;
  readonly caller: Caller;
  readonly model: string;
  /** Tokens of its reply that went through so far, by our count; 0 for one that is not streamed. */
  readonly relayedTokens: number;
  /** Ends it with an error of ours, in whatever way the client can still be told. */
  fail(code: Code, reason: EndReason): void;
};

/** What the relayed calls of a process share. */
export type Relay = {
  readModel: ReadModel;
  pepper: Buffer;
  seat: Seat;
  life: FencingGuard;
  refusals: RejectionLog;
  /** By which secret keys that are being rotated were used. */
  secretUse: SecretUse;
  estimates: CompletionEstimates;
  upstreams: Upstreams;
  deadlines: Deadlines;
  timeouts: DeliveryOptions['timeouts'];
  trustedProxies: AddressSet | null;
  maxBodyBytes: number;
  overlapped: boolean;
  /** Set when the process is about to end: nothing new is taken. */
  draining: boolean;
  /** What runs at this moment, so that it can be ended at a shutdown, a fence or a revocation. */
  running: Set<Running>;
};
