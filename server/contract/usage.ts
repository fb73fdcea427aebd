import { z } from 'zod';
import { FILTER_FIELDS } from '#db/fold/call-filter.ts';
import { Freshness, Format, Time } from '#server/contract/parts.ts';
import { RequestFilter, Outcome } from '#server/contract/requests.ts';

export const Bucket = z.enum(['minute', 'hour', 'day']);
export type Bucket = z.infer<typeof Bucket>;
/** By account, key and model there are tables of sums; by the others the requests themselves are summed. */
export const UsageGroup = z.enum(FILTER_FIELDS);
export type UsageGroup = z.infer<typeof UsageGroup>;

/** `GET /v1/usage`: usage of requests by the time they ended, grouped and in buckets. */
export const UsageQuery = z.strictObject({
  ...RequestFilter.shape,
  /** Only requests that have ended are in reports. */
  outcome: Outcome.optional(),
  /** Inclusive. Default: the start of the day of `to`, in UTC. */
  from: Time.optional(),
  /** Exclusive. Default: now. */
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
   * Whether groups get percentiles too, which is the most expensive part; without groups they are always
   * included.
   */
  percentiles: z
    .enum(['true', 'false'])
    .transform((text) => text === 'true')
    .optional(),
  /** Whether the limits of `GET /v1/usage` get forecasts. */
  forecast: z
    .enum(['true', 'false'])
    .transform((text) => text === 'true')
    .optional(),
  format: Format.optional(),
});
export type UsageQuery = z.infer<typeof UsageQuery>;

/** From histograms, with their resolution. Null: no data. */
export const UsagePercentiles = z.object({
  duration_p50_ms: z.number().nullable(),
  duration_p95_ms: z.number().nullable(),
  first_byte_p50_ms: z.number().nullable(),
  first_byte_p95_ms: z.number().nullable(),
});
export type UsagePercentiles = z.infer<typeof UsagePercentiles>;

/** Sums of usage. */
export const UsageFigures = z.object({
  /** Ended requests, without rejected ones. */
  requests: z.number(),
  completed: z.number(),
  client_disconnected: z.number(),
  upstream_failed: z.number(),
  cut_short: z.number(),
  relay_failed: z.number(),
  refused: z.number(),
  input_tokens: z.number(),
  cache_read_tokens: z.number(),
  cache_write_tokens: z.number(),
  output_tokens: z.number(),
  reasoning_tokens: z.number(),
  /** Holds that stay charged, since the use of their calls is unknown. */
  abandoned_tokens: z.number(),
  /**
   * What accounts are charged. A sum of money may exceed the integers that a JSON number has exactly: it is a
   * decimal string.
   */
  cost_nanousd: z.string(),
  /** What all attempts cost the operator. Only in replies to administrators and auditors. */
  upstream_cost_nanousd: z.string().exactOptional(),
  /** Requests without a cost, since their model has no price. */
  unpriced: z.number(),
  /** Requests whose usage was counted or estimated, since the provider did not report it; and their cost. */
  estimated: z.number(),
  estimated_cost_nanousd: z.string(),
  /**
   * Corrections that were recorded in the period, of requests of any time. Their amounts are in the figures;
   * this is their part of the cost, which can be negative.
   */
  corrections: z.number(),
  correction_cost_nanousd: z.string(),
  ...UsagePercentiles.partial().shape,
});
export type UsageFigures = z.infer<typeof UsageFigures>;

const GROUP_VALUES = Object.fromEntries(
  UsageGroup.options.map((group) => [group, z.string().exactOptional()]),
) as { [Group in UsageGroup]: z.ZodExactOptional<z.ZodString> };

/** Usage of one group in one bucket. Fields that the report isn't grouped by are absent. */
export const UsageRow = z.object({
  from: z.string().exactOptional(),
  ...GROUP_VALUES,
  ...UsageFigures.shape,
});
export type UsageRow = z.infer<typeof UsageRow>;

/** The part of `GET /v1/usage` that comes from the projections. */
export const UsageReport = z.object({
  ...Freshness.shape /** The scope of the report; null: all. */,
  scope: z.object({ account: z.string().nullable(), key: z.string().nullable() }),
  /** The range of the report, rounded outwards to its buckets. */
  from: z.string(),
  to: z.string(),
  bucket: Bucket.nullable(),
  /**
   * A request is in one group, except with `tag`, where it is in the group of each of its tags; the totals
   * count it once.
   */
  group_by: z.array(UsageGroup),
  /** The sums of the tables, or sums over the requests themselves, which are kept for a shorter time. */
  source: z.enum(['usage', 'requests']),
  totals: UsageFigures,
  /** Absent without groups and buckets. By time if there are buckets, otherwise by number of requests. */
  rows: z.array(UsageRow).exactOptional(),
  /** Rows beyond the limit; the totals include them. */
  rows_omitted: z.number().exactOptional(),
});
export type UsageReport = z.infer<typeof UsageReport>;
/** Usage of the current month, in UTC. */
export const MonthUsage = z.object({
  requests: z.number(),
  tokens: z.number(),
  cost_nanousd: z.string(),
  /** The part of the cost that is estimated. */
  estimated_cost_nanousd: z.string(),
  /** Corrections that were recorded in the month, and their part of the cost. */
  corrections: z.number(),
  correction_cost_nanousd: z.string(),
});
export type MonthUsage = z.infer<typeof MonthUsage>;
