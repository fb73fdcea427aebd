import { z } from 'zod';
import { Id } from '#db/events/parts.ts';
import type { Projection } from '#db/forecast/forecast.ts';
import type { Enforcement, WindowKind } from '#db/limits/limits.ts';
import type { Meter } from '#db/limits/meters.ts';

/**
 * `GET /api/v1/limits`: limits of the account (`?account=` for administrators and auditors), then of its
 * active keys. `?key=`: the limits that calls of this key are charged to.
 */
export const LimitsQuery = z.strictObject({ account: Id.optional(), key: Id.optional() });
export type LimitList = {
  object: 'list';
  data: LimitRow[];
  /** Rows beyond the limit of the list. */ rows_omitted: number;
  /** The time of the figures. */ limits_as_of: string;
};
/** One limit in force, as enforced rather than as projected. */
export type LimitRow = {
  /** `account/<id>` or `key/<id>`. */
  subject: string;
  key_name: string | null;
  meter: Meter;
  window: WindowKind;
  limit: number;
  used: number;
  reserved: number;
  remaining: number;
  /** Null: the limit has no window. */
  window_started_at: string | null;
  resets_at: string | null;
  enforcement: Enforcement;
  /** Units used beyond the limit. */
  overdraft: number;
  /** The largest overdraft that running replies may cause together; null: no number of tokens bounds it. */
  overdraft_max: number | null;
};

/** `GET /api/v1/limits/forecasts`: the limits of the same list that are forecast. */
export type ForecastList = { object: 'list'; data: ForecastRow[]; forecast_as_of: string };
/** A quota of cost or tokens by day, week or month at the end of its current window. */
export type ForecastRow = Pick<LimitRow, 'subject' | 'meter' | 'window'> & {
  /** Usage a day since the window began. */
  run_rate: number;
  /** Null where the history is too short. */
  projection: Projection | null;
};
