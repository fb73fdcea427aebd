import { z } from 'zod';
import { END_REASONS, type EndReason, USAGE_SOURCES, type UsageSource } from '#db/events/endings.ts';
import { ENFORCEMENT_NAMES, RELAYED_ROUTES, WINDOW_KINDS, type WindowKind } from '#db/limits/limits.ts';
import { METER_NAMES } from '#db/limits/meters.ts';
import { LIVE_VERSION } from '#server/contract/live-protocol.ts';
import { Outcome, RequestFilter } from '#server/contract/requests.ts';

/**
 * Messages of `GET /v1/live`. Each is one JSON object with a position, a time and frames:
 *
 *     {"position": 1234, "at": "2026-05-04T10:00:00.000Z", "frames": [...]}
 *
 * `position`: every event up to it that this viewer may see has been sent. It never decreases, and it is the
 * value of `?after=` to resume. A message without frames is a heartbeat that moves the position. Field names
 * are those of the log. Fields and frame types may be added; clients ignore unknown ones. Pure, and shared
 * with the dashboard.
 */

/** Query of the live feed: a filter of requests, and the position to resume after. */
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

/** The first frame: the position that the feed starts at, and its scope. */
const Hello = z.object({
  type: z.literal('hello'),
  version: z.literal(LIVE_VERSION),
  position: Position,
  /** A message is sent at least this often; twice as long without one means the connection is lost. */
  heartbeat_ms: Count,
  /** Null: all accounts, or all keys of the account. */
  account: z.string().nullable(),
  key: z.string().nullable(),
});

/** The end user, session and tags of a call, as pseudonyms. */
const attribution = {
  end_user: z.string().optional(),
  session: z.string().optional(),
  tags: z.array(z.string()).optional(),
};
const call = { request: z.uuid(), account: z.string(), key: z.string(), model: z.string(), ...attribution };
const route = z.enum(RELAYED_ROUTES);
const placed = { position: Position, at: Time };
const admission = { admitted_minute: Count.optional(), terms_position: Count.optional() };
/** The observed limits that would have rejected the call; `GET /v1/requests/{id}` has their figures. */
const observed = z.array(z.unknown()).optional();

/** A call was accepted. */
const Started = z.object({
  type: z.literal('started'),
  ...placed,
  ...call,
  route,
  sse: z.boolean(),
  body_bytes: Count,
  hold_tokens: Count,
  hold_cost_nanousd: Count.optional(),
  ...admission,
  /** The size that its reservation follows from, in tokens. */
  prompt_estimate: Count.optional(),
  max_output_tokens: Count.optional(),
  retry_count: Count.optional(),
  observed,
});

/**
 * Tokens of a streamed reply relayed so far, by our count; the settled frame has the exact number. At most
 * four a second per call, and omitted under load. Ignore one received before its call has started or after it
 * has ended.
 */
const Progress = z.object({ type: z.literal('progress'), ...call, output_tokens: Count });

/** A call has ended. An abandoned call has no figures except its hold, which stays charged. */
const Settled = z.object({
  type: z.literal('settled'),
  ...placed,
  ...call,
  route: route.optional(),
  outcome: Outcome.exclude(['refused']),
  end_reason: names<EndReason>(END_REASONS),
  usage_source: names<UsageSource>(USAGE_SOURCES),
  observed,
  upstream: z.string().optional(),
  credential: z.string().optional(),
  status: Count.optional(),
  input_tokens: Count.optional(),
  cache_read_tokens: Count.optional(),
  cache_write_tokens: Count.optional(),
  output_tokens: Count.optional(),
  reasoning_tokens: Count.optional(),
  /** What the account is charged. */
  cost_nanousd: Count.optional(),
  /**
   * What all attempts cost the operator, where that is another amount. Only for administrators and auditors.
   */
  upstream_cost_nanousd: Count.optional(),
  price_version: Count.optional(),
  attempt_count: Count.optional(),
  first_byte_ms: Count.optional(),
  duration_ms: Count.optional(),
  /** The model, the reason and the service tier that the reply states. */
  answered_model: z.string().optional(),
  finish_reason: z.string().optional(),
  service_tier: z.string().optional(),
  /** The provider's own id of the request. */
  provider_request: z.string().optional(),
  hold_tokens: Count.optional(),
  hold_cost_nanousd: Count.optional(),
  ...admission,
});

/**
 * Calls that were rejected by a permission or a limit; identical rejections within a second are one frame.
 */
const Refused = z.object({
  type: z.literal('refused'),
  ...placed,
  /** The first of these requests. */
  request: z.uuid(),
  account: z.string(),
  key: z.string(),
  route,
  model: z.string().optional(),
  ...attribution,
  error_code: z.string(),
  status: Count,
  rejected_count: Count,
});

/** The amount that a correction adds to a figure; below zero it is subtracted. */
const Delta = z.int().optional();

/**
 * An ended call was corrected. It counts at the time of this frame. Without an amount for the upstream cost,
 * that is the one of the charge.
 */
const Corrected = z.object({
  type: z.literal('corrected'),
  ...placed,
  ...call,
  route: route.optional(),
  upstream: z.string().optional(),
  status: Count.optional(),
  outcome: Outcome.exclude(['refused']),
  cost_nanousd: Delta,
  /** Only for administrators and auditors. */
  upstream_cost_nanousd: Delta,
  input_tokens: Delta,
  cache_read_tokens: Delta,
  cache_write_tokens: Delta,
  output_tokens: Delta,
  reasoning_tokens: Delta,
  hold_tokens: Delta,
});

/** A sum of money, as a decimal string. Corrections can make it negative. */
const Sum = z.string().regex(/^-?\d+$/);
/** A sum that corrections can make negative. */
const Total = z.int();

/**
 * Usage added by the settled, rejected and corrected calls of this message, per key and model, as in the
 * usage report.
 */
export const UsageDelta = z.object({
  account: z.string(),
  key: z.string(),
  /** Empty for calls that were rejected before their body was read. */
  model: z.string(),
  completed: Count,
  client_disconnected: Count,
  upstream_failed: Count,
  cut_short: Count,
  relay_failed: Count,
  refused: Count,
  unpriced: Count,
  estimated: Count,
  corrections: Count,
  input_tokens: Total,
  cache_read_tokens: Total,
  cache_write_tokens: Total,
  output_tokens: Total,
  reasoning_tokens: Total,
  abandoned_tokens: Total,
  cost_nanousd: Sum,
  /** Only for administrators and auditors. */
  upstream_cost_nanousd: Sum.optional(),
  estimated_cost_nanousd: Sum,
  correction_cost_nanousd: Sum,
});
export type UsageDelta = z.infer<typeof UsageDelta>;
const Usage = z.object({ type: z.literal('usage'), rows: z.array(UsageDelta) });

/** A quota window after its newest change, from the projections. */
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
  enforcement: z.enum(ENFORCEMENT_NAMES),
});

/** A change of an account, a plan or a key; `kind` is the event type. */
const Notice = z.object({
  type: z.literal('notice'),
  ...placed,
  kind: z.string(),
  account: z.string().optional(),
  key: z.string().optional(),
  plan: z.string().optional(),
  model: z.string().optional(),
});

/** Events up to this position were skipped: fetch the data again. The feed continues after it. */
const Gap = z.object({ type: z.literal('gap'), position: Position });

export const Frame = z.discriminatedUnion('type', [
  Hello,
  Started,
  Progress,
  Settled,
  Refused,
  Corrected,
  Usage,
  Quota,
  Notice,
  Gap,
]);
export type Frame = z.infer<typeof Frame>;
export type FrameOf<T extends Frame['type']> = Extract<Frame, { type: T }>;

export const LiveMessage = z.object({ position: Position, at: Time, frames: z.array(Frame) });
export type LiveMessage = z.infer<typeof LiveMessage>;
