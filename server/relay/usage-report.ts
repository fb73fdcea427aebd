import type { Key } from '#db/fold/key.ts';
import type { Budget, Forecast } from '#db/forecast/read-forecasts.ts';
import { isEnforced, type Limit, REPLY_TOKENS_MAX_DEFAULT, type SubjectLimits } from '#db/limits/limits.ts';
import { reservedAmount } from '#db/limits/meters.ts';
import type { CallAttribution } from '#db/limits/subjects.ts';
import { CONCURRENT_MAX } from '#server/limits/bounds.ts';
import { type Figures, figuresOf } from '#server/limits/figures.ts';
import type { LeaseClient } from '#server/limits/lease-client.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';

/** The reply of `GET /v1/usage`: every limit that the key's calls are charged to. */
export type Usage = {
  object: 'usage';
  /** Of what moment the limits are, which come from what enforces them and not from the tables. */
  limits_as_of: string;
  account: { id: string; name: string; plan: string | null };
  key: { id: string; name: string };
  limits: (Figures & {
    enforcement: Limit['enforcement'];
    /** The largest overdraft that running replies may cause together; null: no number of tokens bounds it. */
    overdraft_max: number | null;
    /** Where it is asked for; null: the limit is not forecast, or forecasts are unavailable. */
    forecast?: Forecast | null;
  })[];
};

/**
 * The limits of a key and its account, as the store knows them now; null where it can't be asked.
 * @param call the end user, session and tags whose limits are listed too.
 * @param forecast reads the forecasts of limits; null: they are not asked for.
 */
export async function usageOf(
  key: Key,
  readModel: ReadModel,
  limits: LeaseClient,
  call: CallAttribution,
  forecast: ((budgets: readonly Budget[]) => Promise<(Forecast | null)[]>) | null,
): Promise<Usage | null> {
  const subjects = readModel.limitsOf(key, call);
  const counters = await limits.figures(subjects);
  if (counters === null) return null;
  const forecasts = await forecast?.(
    counters.map(({ subject, meter, window, reported: { used }, cap: limit }) => {
      return { subject, meter, window, used, limit };
    }),
  );
  const account = readModel.account(key.account);
  const inForce = subjects.flatMap((subject) => subject.limits.map((limit) => ({ subject, limit })));
  return {
    object: 'usage',
    limits_as_of: new Date(readModel.nowMs()).toISOString(),
    account: { id: key.account, name: account?.name ?? '', plan: account?.plan ?? null },
    key: { id: key.id, name: key.name },
    limits: counters.map((counter, index) => {
      const { subject, limit } = inForce[index] as (typeof inForce)[number];
      return {
        ...figuresOf(counter, key.account),
        enforcement: limit.enforcement,
        overdraft_max: overdraftMaxOf(limit, subject),
        ...(forecasts === undefined ? {} : { forecast: forecasts[index] ?? null }),
      };
    }),
  };
}

/**
 * How far a soft limit may end beyond its limit: each of the calls that may run at once by the
 * longest reply. Declared, so that it can be planned with.
 */
export function overdraftMaxOf(
  { meter, enforcement }: Limit,
  { limits, replyTokensMax }: SubjectLimits,
): number | null {
  const amount = reservedAmount(meter);
  if (amount === null || enforcement === 'hard') return 0;
  if (amount === 'cost' || enforcement === 'observe') return null;
  const concurrent = limits.find((limit) => limit.meter === 'concurrent' && isEnforced(limit));
  return (concurrent?.cap ?? CONCURRENT_MAX) * (replyTokensMax ?? REPLY_TOKENS_MAX_DEFAULT);
}
