import { z } from 'zod';
import { END_REASONS, type EndReason, USAGE_SOURCES, type UsageSource } from '#db/events/events.ts';
import { WINDOW_KINDS, type WindowKind } from '#db/limits/limits.ts';
import { METER_NAMES } from '#db/limits/meters.ts';
import { LIVE_VERSION } from '#server/contract/live-protocol.ts';
import { Outcome, RequestFilter } from '#server/contract/requests.ts';

/**
 * What `GET /v1/live` sends. Every message is one JSON object with a position, a time and frames:
 *
 *     {"position": 1234, "at": "2026-05-04T10:00:00.000Z", "frames": [...]}
 *
 * `position` says that all events up to it which this viewer may see were sent: it is what
 * `?after=` takes after a reconnect. It never goes back. A message without frames only moves it, and
 * shows that the feed lives. Field names are those of the log; more fields and more types of frames
 * may come, and whoever does not know one leaves it. Pure, and shared with the dashboard.
 */

/** What it may be asked: which calls are shown, and the position up to which everything was seen. */
export const LiveQuery = RequestFilter.extend({
  after: z
    .string()
    .regex(/^\d{1,15}$/, 'must be a position in the log')
    .transform(Number)
    .optional(),
});

const Count = z.int().min(0);
const Position = Count;
const Time = z.iso.datetime();
const names = <T extends string>(codes: Record<T, number>) => z.enum(Object.keys(codes) as [T, ...T[]]);

/** The first frame: from which position the feed goes on, and whose events it carries. */
const Hello = z.object({
  type: z.literal('hello'),
  version: z.literal(LIVE_VERSION),
  position: Position,
  /** Something comes at least this often; silence for twice as long is a lost connection. */
  heartbeat_ms: Count,
  /** Null: those of all accounts, or of all keys of the account. */
  account: z.string().nullable(),
  key: z.string().nullable(),
});

const call = { request: z.uuid(), account: z.string(), key: z.string(), model: z.string() };
const placed = { position: Position, at: Time };
const admission = { admitted_minute: Count.optional(), terms_position: Count.optional() };

/** A call was admitted and runs. */
const Started = z.object({
  type: z.literal('started'),
  ...placed,
  ...call,
  sse: z.boolean(),
  body_bytes: Count,
  hold_tokens: Count,
  hold_cost_microusd: Count.optional(),
  ...admission,
  retry_count: Count.optional(),
});

/**
 * How many tokens of a streamed reply were relayed so far, by our count; the settled frame has the
 * true figure. At most four a second for each call, and none when there are too many. One may come
 * before the start or after the end of its call, and means nothing then.
 */
const Progress = z.object({ type: z.literal('progress'), ...call, output_tokens: Count });

/**
 * A call has ended, in whatever way. One that was abandoned has no figures but its hold, which stays charged.
 */
const Settled = z.object({
  type: z.literal('settled'),
  ...placed,
  ...call,
  outcome: Outcome.exclude(['refused']),
  end_reason: names<EndReason>(END_REASONS),
  usage_source: names<UsageSource>(USAGE_SOURCES),
  upstream: z.string().optional(),
  status: Count.optional(),
  input_tokens: Count.optional(),
  cached_tokens: Count.optional(),
  output_tokens: Count.optional(),
  reasoning_tokens: Count.optional(),
  cost_microusd: Count.optional(),
  price_version: Count.optional(),
  attempts: Count.optional(),
  first_byte_ms: Count.optional(),
  duration_ms: Count.optional(),
  hold_tokens: Count.optional(),
  hold_cost_microusd: Count.optional(),
  ...admission,
});

/** Calls that were refused by permission or limit; many alike within a second are one frame. */
const Refused = z.object({
  type: z.literal('refused'),
  ...placed,
  /** The first of them. */
  request: z.uuid(),
  account: z.string(),
  key: z.string(),
  refusal: z.string(),
  status: Count,
  refused_count: Count,
});

/** What the endings in this message add to the usage of one key and model, as the usage report counts. */
export const UsageDelta = z.object({
  account: z.string(),
  key: z.string(),
  /** Empty for calls that were refused before their model mattered. */
  model: z.string(),
  completed: Count,
  client_gone: Count,
  upstream_failed: Count,
  cut_short: Count,
  relay_failed: Count,
  refused: Count,
  unpriced: Count,
  input_tokens: Count,
  cached_tokens: Count,
  output_tokens: Count,
  reasoning_tokens: Count,
  abandoned_tokens: Count,
  cost_microusd: Count,
});
export type UsageDelta = z.infer<typeof UsageDelta>;
const Usage = z.object({ type: z.literal('usage'), rows: z.array(UsageDelta) });

/** A quota's window after its newest change, as the projections know it. */
const Quota = z.object({
  type: z.literal('quota'),
  position: Position,
  /** `account/<id>` or `key/<id>`. */
  subject: z.string(),
  account: z.string(),
  meter: z.enum(METER_NAMES),
  window: names<WindowKind>(WINDOW_KINDS),
  /** Minutes since 1970. */
  window_start: Count,
  cap: Count,
  used: Count,
  reserved: Count,
  reset_position: Position,
  is_hard: z.boolean(),
});

/** Something about the account, its plan or its keys was changed: `kind` is the event's type. */
const Notice = z.object({
  type: z.literal('notice'),
  ...placed,
  kind: z.string(),
  account: z.string().optional(),
  key: z.string().optional(),
  plan: z.string().optional(),
  model: z.string().optional(),
});

/**
 * Events up to this position were left out: what is shown is to be fetched anew. The feed goes on behind it.
 */
const Gap = z.object({ type: z.literal('gap'), position: Position });

export const Frame = z.discriminatedUnion('type', [
  Hello,
  Started,
  Progress,
  Settled,
  Refused,
  Usage,
  Quota,
  Notice,
  Gap,
]);
export type Frame = z.infer<typeof Frame>;
export type FrameOf<T extends Frame['type']> = Extract<Frame, { type: T }>;

export const LiveMessage = z.object({ position: Position, at: Time, frames: z.array(Frame) });
export type LiveMessage = z.infer<typeof LiveMessage>;
