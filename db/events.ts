import { z } from 'zod';

/**
 * The vocabulary of the log: one schema per event type, named `subject.verb` in the past tense.
 * Field names are the column names of the table `log`, so there is one spelling from the hot path
 * to the auditor. Events are versioned by adding optional fields; every version ever written must
 * still parse.
 */

/** An account's or a key's public id. */
const Id = z.string().regex(/^[0-9A-Za-z]{8}$/);
const RequestId = z.uuid();
const Count = z.int().min(0);
/** Times inside a body are ISO 8601 in UTC. The time of the event itself is the log's own `at`. */
const Time = z.iso.datetime();
/** HMAC-SHA-256 of a secret under the installation's pepper, in hex. Never the secret. */
const Digest = z.string().regex(/^[0-9a-f]{64}$/);

/** Model and upstream names are printable ASCII: they go into the hashed row text as they are. */
export const MODEL_NAME = /^[\x20-\x7e]{1,256}$/;
export const ModelName = z.string().regex(MODEL_NAME);
export const UpstreamName = z.string().regex(/^[a-z0-9][a-z0-9._-]{0,63}$/);
export const AccountName = z.string().trim().min(1).max(100);
export const KeyName = z.string().trim().min(1).max(100);

/** Who caused a control event: `command-line`, `first-start`, later `member/<id>`. */
const Actor = z.string().regex(/^[a-z][a-z0-9/._-]{0,99}$/i);
const Control = z.object({ actor: Actor });

/** Why a request ended. The codes are stored in the log and never change meaning. */
export const END_REASONS = {
  completed: 1,
  client_gone: 2,
  upstream_cut: 3,
  upstream_error: 4,
  upstream_refused: 5,
  upstream_unreachable: 6,
  timed_out: 7,
  shed: 8,
  abandoned: 9,
  internal_error: 10,
} as const;
export type EndReason = keyof typeof END_REASONS;

/** Where the token counts of an ending come from: the provider's report, our count, or a guess. */
export const USAGE_SOURCES = { provider: 1, counted: 2, estimated: 3, none: 4 } as const;
export type UsageSource = keyof typeof USAGE_SOURCES;

const AccountRegistered = Control.extend({ type: z.literal('account.registered'), account: Id, name: AccountName });
const AccountSuspended = Control.extend({ type: z.literal('account.suspended'), account: Id });
const AccountReinstated = Control.extend({ type: z.literal('account.reinstated'), account: Id });

const KeyCreated = Control.extend({
  type: z.literal('key.created'),
  account: Id,
  key: Id,
  name: KeyName,
  digest: Digest,
  last4: z.string().length(4),
  expires_at: Time.optional(),
});
const KeyRotated = Control.extend({
  type: z.literal('key.rotated'),
  account: Id,
  key: Id,
  digest: Digest,
  last4: z.string().length(4),
  /** Until when the old secret is still good; absent: it ended with this event. */
  overlap_ends_at: Time.optional(),
});
const KeyRevoked = Control.extend({ type: z.literal('key.revoked'), account: Id, key: Id });

const RequestAccepted = z.object({
  type: z.literal('request.accepted'),
  request: RequestId,
  account: Id,
  key: Id,
  model: ModelName,
  sse: z.boolean(),
  body_bytes: Count,
  /** What this request may spend until it settles. */
  hold_tokens: Count,
  /** The client's own count of retries (`x-stainless-retry-count`), when it told one. */
  retry_count: Count.optional(),
});

const ending = {
  request: RequestId,
  account: Id,
  key: Id,
  model: ModelName,
  end_reason: z.enum(Object.keys(END_REASONS) as [EndReason, ...EndReason[]]),
  usage_source: z.enum(Object.keys(USAGE_SOURCES) as [UsageSource, ...UsageSource[]]),
};
const RequestSettled = z.object({
  type: z.literal('request.settled'),
  ...ending,
  upstream: UpstreamName.optional(),
  /** The HTTP status that the client was given, or 499 when it had left before one was sent. */
  status: Count,
  input_tokens: Count,
  cached_tokens: Count,
  output_tokens: Count,
  reasoning_tokens: Count,
  attempts: Count,
  first_byte_ms: Count.optional(),
  duration_ms: Count,
});
const RequestAbandoned = z.object({
  type: z.literal('request.abandoned'),
  ...ending,
  /** The full hold stays charged: nobody knows what the dead instance had relayed. */
  hold_tokens: Count,
});

export const Event = z.discriminatedUnion('type', [
  AccountRegistered,
  AccountSuspended,
  AccountReinstated,
  KeyCreated,
  KeyRotated,
  KeyRevoked,
  RequestAccepted,
  RequestSettled,
  RequestAbandoned,
]);
export type Event = z.infer<typeof Event>;
export type EventType = Event['type'];
export type EventOf<T extends EventType> = Extract<Event, { type: T }>;

export type ControlEvent = Extract<Event, { actor: string }>;
export type RequestEvent = Exclude<Event, ControlEvent>;

/** The number that stands for each type in the log. Append only: a number is never reused. */
export const EVENT_CODES = {
  'account.registered': 1,
  'account.suspended': 2,
  'account.reinstated': 3,
  'key.created': 10,
  'key.rotated': 11,
  'key.revoked': 12,
  'request.accepted': 100,
  'request.settled': 101,
  'request.abandoned': 102,
} as const satisfies Record<EventType, number>;

/** Where an event stands in the log. */
export type Placed<E extends Event = Event> = {
  shard: number;
  position: number;
  /** Postgres time, the same for all events of a batch. Never decreases along the log. */
  at: Date;
  instance: number;
  /** The subject's stream and the event's place in it; control events only. */
  stream: string | null;
  version: number | null;
  event: E;
};

/**
 * Checks one event against the vocabulary.
 * @throws {z.ZodError} when it is of no known type or a field is wrong.
 */
export function parseEvent(value: unknown): Event {
  return Event.parse(value);
}

/** The stream that a control event belongs to: one per account, one per key. */
export function streamOf(event: ControlEvent): string {
  return event.type.startsWith('key.') && 'key' in event ? `key/${event.key}` : `account/${event.account}`;
}
