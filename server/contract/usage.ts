import { z } from 'zod';
import { FILTER_FIELDS } from '#db/fold/call-filter.ts';
import { Outcome, RequestFilter } from '#server/contract/requests.ts';
import { Time, Format, type Freshness } from '#server/contract/parts.ts';

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

/** Sums of usage. */
export type UsageFigures = {
  /** Ended requests, without rejected ones. */
  requests: number;
  completed: number;
  client_disconnected: number;
  upstream_failed: number;
  cut_short: number;
  relay_failed: number;
  refused: number;
  input_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
  /** Holds that stay charged, since the use of their calls is unknown. */
  abandoned_tokens: number;
  /**
   * What accounts are charged. A sum of money may exceed the integers that a JSON number has exactly: it is a
   * decimal string.
   */
  cost_nanousd: string;
  /** What all attempts cost the operator. Only in replies to administrators and auditors. */
  upstream_cost_nanousd?: string;
  /** Requests without a cost, since their model has no price. */
  unpriced: number;
  /** Requests whose usage was counted or estimated, since the provider did not report it; and their cost. */
  estimated: number;
  estimated_cost_nanousd: string;
  /**
   * Corrections that were recorded in the period, of requests of any time. Their amounts are in the figures;
   * this is their part of the cost, which can be negative.
   */
  corrections: number;
  correction_cost_nanousd: string;
} & Partial<UsagePercentiles>;

/** From histograms, with their resolution. Null: no data. */
export type UsagePercentiles = {
  duration_p50_ms: number | null;
  duration_p95_ms: number | null;
  first_byte_p50_ms: number | null;
  first_byte_p95_ms: number | null;
};

/** Usage of one group in one bucket. Fields that the report isn't grouped by are absent. */
export type UsageRow = { from?: string } & Partial<Record<UsageGroup, string>> & UsageFigures;

/** The part of `GET /v1/usage` that comes from the projections. */
export type UsageReport = Freshness & {
  /** The scope of the report; null: all. */
  scope: { account: string | null; key: string | null };
  /** The range of the report, rounded outwards to its buckets. */
  from: string;
  to: string;
  bucket: Bucket | null;
  /**
   * A request is in one group, except with `tag`, where it is in the group of each of its tags; the totals
   * count it once.
   */
  group_by: UsageGroup[];
  /** The sums of the tables, or sums over the requests themselves, which are kept for a shorter time. */
  source: 'usage' | 'requests';
  totals: UsageFigures;
  /** Absent without groups and buckets. By time if there are buckets, otherwise by number of requests. */
  rows?: UsageRow[];
  /** Rows beyond the limit; the totals include them. */
  rows_omitted?: number;
};
/** Usage of the current month, in UTC. */
export type MonthUsage = {
  requests: number;
  tokens: number;
  cost_nanousd: string;
  /** The part of the cost that is estimated. */
  estimated_cost_nanousd: string;
  /** Corrections that were recorded in the month, and their part of the cost. */
  corrections: number;
  correction_cost_nanousd: string;
};
