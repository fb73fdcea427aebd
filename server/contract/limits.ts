import { z } from 'zod';
import { Id } from '#db/events/parts.ts';
import { ENFORCEMENT_NAMES } from '#db/limits/limits.ts';
import { MeterName, WindowName } from '#server/contract/parts.ts';

/**
 * `GET /api/v1/limits`: limits of the account (`?account=` for administrators and auditors), then of its
 * active keys. `?key=`: the limits that calls of this key are charged to.
 */
export const LimitsQuery = z.strictObject({ account: Id.optional(), key: Id.optional() });
/** One limit in force, as enforced rather than as projected. */
export const LimitRow = z.object({
  /** `account/<id>` or `key/<id>`. */
  subject: z.string(),
  key_name: z.string().nullable(),
  meter: MeterName,
  window: WindowName,
  limit: z.number(),
  used: z.number(),
  reserved: z.number(),
  remaining: z.number(),
  /** Null: the limit has no window. */
  window_started_at: z.string().nullable(),
  resets_at: z.string().nullable(),
  enforcement: z.enum(ENFORCEMENT_NAMES),
  /** Units used beyond the limit. */
  overdraft: z.number(),
  /** The largest overdraft that running replies may cause together; null: no number of tokens bounds it. */
  overdraft_max: z.number().nullable(),
});
export type LimitRow = z.infer<typeof LimitRow>;
export const LimitList = z.object({
  object: z.literal('list'),
  data: z.array(LimitRow),
  /** Rows beyond the limit of the list. */
  rows_omitted: z.number(),
  /** The time of the figures. */
  limits_as_of: z.string(),
});
export type LimitList = z.infer<typeof LimitList>;
/** A quota of cost or tokens by day, week or month at the end of its current window. */
export const ForecastRow = z.object({
  ...LimitRow.pick({ subject: true, meter: true, window: true })
    .shape /** Usage a day since the window began. */,
  run_rate: z.number(),
  /** Null where the history is too short. */
  projection: z
    .object({
      projected: z.number(),
      /** Its 80 % range. */
      low: z.number(),
      high: z.number(),
      /** When the limit is expected to be reached; null: not within the window. */
      exhausted_at: z.string().nullable(),
    })
    .nullable(),
});
export type ForecastRow = z.infer<typeof ForecastRow>;

/** `GET /api/v1/limits/forecasts`: the limits of the same list that are forecast. */
export const ForecastList = z.object({
  object: z.literal('list'),
  data: z.array(ForecastRow),
  forecast_as_of: z.string(),
});
export type ForecastList = z.infer<typeof ForecastList>;
