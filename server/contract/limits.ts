import { z } from 'zod';
import { Id } from '#db/events/parts.ts';
import type { Meter } from '#db/limits/meters.ts';

/**
 * `GET /api/limits`: the account's (`?account=` for those who see all), then those of its good keys; `?key=`:
 * what calls of that key are charged to.
 */
export const LimitsQuery = z.strictObject({ account: Id.optional(), key: Id.optional() });
export type LimitList = {
  object: 'list';
  data: LimitRow[];
  /** Those that are left out because they are too many. */ rows_omitted: number;
  /** The moment of the figures. */ limits_as_of: string;
};
/** One limit in force. From what enforces, not from the tables. */
export type LimitRow = {
  /** `account/<id>` or `key/<id>`. */
  subject: string;
  key_name: string | null;
  meter: Meter;
  window: 'none' | 'minute' | 'hour' | 'day' | 'week' | 'month';
  limit: number;
  used: number;
  reserved: number;
  remaining: number;
  /** Null: it has no window. */
  window_started_at: string | null;
  resets_at: string | null;
  enforcement: 'soft' | 'hard';
  overdraft: number | null;
};
