import { z } from 'zod';
import type { EndReason, UsageSource } from '#db/events/events.ts';
import type { WindowKind } from '#db/limits/limits.ts';
import type { Meter } from '#db/limits/meters.ts';
import { OUTCOMES } from '#db/projections/outcomes.ts';

/**
 * What the read API and the live feed speak: shapes of replies and frames, and the one filter that
 * drives lists, feed and exports alike. Pure, and shared with the dashboard. Field names are those
 * of the log.
 */

const Id = z.string().regex(/^[0-9A-Za-z]{8}$/, 'must be an id of eight letters and digits');
const Model = z.string().min(1).max(256);

/** How a request ended, in a few words that people group by. */
export const Outcome = z.enum(OUTCOMES);
export type Outcome = z.infer<typeof Outcome>;

/** Which requests are meant; what is absent does not narrow. */
export const RequestFilter = z.strictObject({
  account: Id.optional(),
  key: Id.optional(),
  model: Model.optional(),
  /** `running`, or how it ended. */
  outcome: z.enum([...Outcome.options, 'running']).optional(),
  /** The HTTP status that the client was given. */
  status: z.coerce.number().int().min(100).max(599).optional(),
});
export type RequestFilter = z.infer<typeof RequestFilter>;

/** ISO 8601: a time with its zone, or a date, which is its midnight in UTC. */
const Time = z
  .union([z.iso.datetime({ offset: true }), z.iso.date()], 'must be a time such as 2027-01-31T00:00:00Z')
  .transform((text) => new Date(text));
const Format = z.enum(['json', 'csv']);

/** The most requests of one page. */
export const PAGE_LIMIT_MAX = 200;

/** `GET /v1/requests`: the filter, the time in which they were accepted, and the page. */
export const RequestListQuery = RequestFilter.extend({
  /** From this moment on; a day before `to`, or before now, where it is absent. */
  from: Time.optional(),
  /** Before this moment; without end where it is absent. */
  to: Time.optional(),
  limit: z.coerce.number().int().min(1).max(PAGE_LIMIT_MAX).default(50),
  /** `next` of the page before. */
  cursor: z.string().max(200).optional(),
  format: Format.optional(),
});
export type RequestListQuery = z.infer<typeof RequestListQuery>;

export const Bucket = z.enum(['minute', 'hour', 'day']);
export type Bucket = z.infer<typeof Bucket>;
export const UsageGroup = z.enum(['account', 'key', 'model']);
export type UsageGroup = z.infer<typeof UsageGroup>;

/** `GET /v1/usage`: of which calls, by when they ended, and how it is taken apart. */
export const UsageQuery = z.strictObject({
  account: Id.optional(),
  key: Id.optional(),
  model: Model.optional(),
  /** From this moment on; the beginning of the day of `to`, in UTC, where it is absent. */
  from: Time.optional(),
  /** Before this moment; now where it is absent. */
  to: Time.optional(),
  bucket: Bucket.optional(),
  /** Separated by commas. */
  group_by: z
    .string()
    .transform((text) => text.split(','))
    .pipe(z.array(UsageGroup))
    .refine((groups) => new Set(groups).size === groups.length, 'names a group twice')
    .optional(),
  /**
   * Whether percentiles are told of the groups too, which costs more than all the rest; without groups they
   * always are.
   */
  times: z
    .enum(['true', 'false'])
    .transform((text) => text === 'true')
    .optional(),
  format: Format.optional(),
});
export type UsageQuery = z.infer<typeof UsageQuery>;

/** Of what moment the figures of a reply are. */
export type AsOf = {
  /** ISO 8601: the time of the newest event in the figures; null before the first. */
  as_of: string | null;
  /** That event's position: a feed that is resumed after it misses nothing and repeats nothing. */
  position: number;
  /** Events in the log that are not in the figures yet. */
  behind: number;
  /** Events that could not be taken in and are missing from the figures. */
  parked: number;
};

/** One request of a list. Null is what is not known (yet), or does not apply. */
export type RequestRow = {
  request: string;
  accepted_at: string;
  /** Null while it runs. */
  ended_at: string | null;
  account: string;
  key: string;
  model: string | null;
  upstream: string | null;
  outcome: Outcome | 'running';
  end_reason: EndReason | null;
  /** The code of the refusal, and how many alike this row stands for. */
  refusal: string | null;
  refused_count: number | null;
  status: number | null;
  sse: boolean | null;
  input_tokens: number | null;
  cached_tokens: number | null;
  output_tokens: number | null;
  reasoning_tokens: number | null;
  usage_source: UsageSource | null;
  cost_microusd: number | null;
  first_byte_ms: number | null;
  duration_ms: number | null;
  attempts: number | null;
  retry_count: number | null;
  /** What it may spend, or might have spent until it ended. */
  hold_tokens: number | null;
  hold_cost_microusd: number | null;
  /** Where its first event and its ending are in the log. */
  position: number;
  end_position: number | null;
};

/** `GET /v1/requests`, newest first. */
export type RequestPage = AsOf & {
  object: 'list';
  data: RequestRow[];
  /** The cursor of the page after this one; null where there is none. */
  next: string | null;
  from: string;
  /** Null: without end. */
  to: string | null;
  /**
   * How far back this page has looked: where few fit a filter, a page may hold less than its limit, and go
   * on.
   */
  looked_from: string;
};

/** One event of a request's story: its own fields as in the log, beside what places it. */
export type StoryEvent = { position: number; at: string; type: string } & Record<string, unknown>;

/** A window that the request was charged to. */
export type StoryQuota = {
  scope: 'account' | 'key';
  meter: Meter;
  window: WindowKind;
  from: string;
  to: string;
  limit: number;
  used: number;
  held: number;
};

/** `GET /v1/requests/{id}` */
export type RequestStory = AsOf &
  Omit<RequestRow, 'position'> & {
    object: 'request';
    first_position: number;
    body_bytes: number | null;
    /** The server process that ran it, by its number in the log. */
    instance: number;
    /** The minute by which its windows are chosen. */
    admitted_minute: string | null;
    /** The newest control event that its limits came from. */
    terms_position: number | null;
    price_version: number | null;
    events: StoryEvent[];
    /** False where its beginning and its ending are too far apart to look for all that lies between. */
    has_all_events: boolean;
    quotas: StoryQuota[];
  };

/** What was used, of whatever is summed up. */
export type UsageFigures = {
  /** Calls that ended; those that were refused are not among them. */
  requests: number;
  completed: number;
  client_gone: number;
  upstream_failed: number;
  cut_short: number;
  relay_failed: number;
  refused: number;
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
  /** Holds that stay charged, since nobody knows what their calls used. */
  abandoned_tokens: number;
  cost_microusd: number;
  /** Calls without a cost, for want of a price. */
  unpriced: number;
} & Partial<UsageTimes>;

/** From histograms, so as fine as those are. Null where nothing was counted. */
export type UsageTimes = {
  duration_p50_ms: number | null;
  duration_p95_ms: number | null;
  first_byte_p50_ms: number | null;
  first_byte_p95_ms: number | null;
};

/** What was used by one group, in one bucket of time. What the report was not taken apart by is absent. */
export type UsageRow = { from?: string } & Partial<Record<UsageGroup, string>> & UsageFigures;

/** The part of `GET /v1/usage` that comes from the projections. */
export type UsageReport = AsOf & {
  /** Whose usage it is; null: everybody's. */
  of: { account: string | null; key: string | null };
  /** The time that is summed up: what was asked for, rounded outwards to what the tables are kept by. */
  from: string;
  to: string;
  bucket: Bucket | null;
  group_by: UsageGroup[];
  totals: UsageFigures;
  /**
   * Absent where it is not taken apart. By time where there are buckets, else those with most requests first.
   */
  rows?: UsageRow[];
  /** Rows that are left out because there are too many; the totals have them all. */
  rows_omitted?: number;
};
