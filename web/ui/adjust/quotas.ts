import type { QuotaWindowKind } from '#db/limits/limits.ts';
import { QUOTA_METERS, type QuotaMeter } from '#db/limits/meters.ts';
import type { LimitRow } from '#server/contract/limits.ts';

/** The quotas whose usage can be adjusted. Pure. */

/** One quota in its current window. */
export type AdjustableQuota = {
  /** Null: the account's. */ key: string | null;
  /** Of the key; absent if it isn't known. */ keyName?: string | null;
  meter: QuotaMeter;
  window: QuotaWindowKind;
  limit: number;
  used: number;
};

const isQuotaMeter = (meter: string): meter is QuotaMeter => QUOTA_METERS.some((each) => each === meter);
const isQuotaWindow = (window: string): window is QuotaWindowKind => window !== 'none' && window !== 'minute';

/** The quotas among the limits of an account and its keys. */
export const quotasOfLimits = (rows: readonly LimitRow[]): AdjustableQuota[] =>
  rows.flatMap(({ subject, key_name: keyName, meter, window, limit, used }) =>
    isQuotaMeter(meter) && isQuotaWindow(window)
      ? [{ key: keyName === null ? null : subject.slice('key/'.length), keyName, meter, window, limit, used }]
      : [],
  );
