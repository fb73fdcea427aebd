import { z } from 'zod';
import { Id, Model, Time, Format, type Freshness } from '#server/contract/parts.ts';

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
  percentiles: z
    .enum(['true', 'false'])
    .transform((text) => text === 'true')
    .optional(),
  format: Format.optional(),
});
export type UsageQuery = z.infer<typeof UsageQuery>;

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
} & Partial<UsagePercentiles>;

/** From histograms, so as fine as those are. Null where nothing was counted. */
export type UsagePercentiles = {
  duration_p50_ms: number | null;
  duration_p95_ms: number | null;
  first_byte_p50_ms: number | null;
  first_byte_p95_ms: number | null;
};

/** What was used by one group, in one bucket of time. What the report was not taken apart by is absent. */
export type UsageRow = { from?: string } & Partial<Record<UsageGroup, string>> & UsageFigures;

/** The part of `GET /v1/usage` that comes from the projections. */
export type UsageReport = Freshness & {
  /** Whose usage it is; null: everybody's. */
  scope: { account: string | null; key: string | null };
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
/** What was used since the beginning of the month, in UTC. */
export type MonthUsage = { requests: number; tokens: number; cost_microusd: number };
