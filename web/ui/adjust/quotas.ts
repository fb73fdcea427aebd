import type { QuotaWindowKind } from '#db/limits/limits.ts';
import { QUOTA_METERS, type QuotaMeter } from '#db/limits/meters.ts';
import type { LimitRow } from '#server/contract/limits.ts';
import type { RequestDetail } from '#server/contract/requests.ts';

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

/** The quotas that an ended request was charged to and whose windows still run. */
export function quotasOfRequest({ outcome, key, quotas }: RequestDetail, nowMs: number): AdjustableQuota[] {
  if (outcome === 'running') return [];
  return quotas.flatMap(({ scope, meter, window, limit, used, to }) =>
    isQuotaMeter(meter) && isQuotaWindow(window) && (to === null || Date.parse(to) > nowMs)
      ? [{ key: scope === 'key' ? key : null, meter, window, limit, used }]
      : [],
  );
}

/** The units that a request was charged, for the meters where its row says so. */
export function chargeOf(detail: RequestDetail): Partial<Record<QuotaMeter, number>> {
  const { input_tokens: input, output_tokens: output, hold_tokens, hold_cost_nanousd, cost_nanousd } = detail;
  const isAbandoned = detail.end_reason === 'abandoned';
  const tokens = isAbandoned ? hold_tokens : input === null ? null : input + (output ?? 0);
  const cost = isAbandoned ? hold_cost_nanousd : cost_nanousd;
  return {
    requests: 1,
    ...(tokens === null ? {} : { tokens }),
    ...(cost === null ? {} : { cost_nanousd: cost }),
  };
}
