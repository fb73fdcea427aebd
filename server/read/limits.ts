import { ForecastList, LimitList, type LimitRow, LimitsQuery } from '#server/contract/limits.ts';
import type { Request } from 'express';
import type { Account } from '#db/fold/account.ts';
import { isActiveKey, type Key } from '#db/fold/key.ts';
import type { SubjectLimits } from '#db/limits/limits.ts';
import { LIMITS_LISTED_MAX } from '#server/read/bounds.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { type ApiRoute, ANY_ROLE, route } from '#server/dashboard/gate.ts';
import type { Caller } from '#server/sign-in/signed-in.ts';
import { holderOf, withReadSlot } from '#server/read/api.ts';
import { forecastsOf } from '#server/read/forecasts.ts';
import { readQuery } from '#server/read/query.ts';
import { LIMITS_UNAVAILABLE, type ReadStore } from '#server/read/store.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { figuresOf } from '#server/limits/figures.ts';
import type { Relay } from '#server/relay/relay.ts';
import { overdraftMaxOf } from '#server/relay/usage-report.ts';

type Subject = { limits: SubjectLimits; keyName: string | null };

/** Routes for limits, as enforced, and for their forecasts. */
export function limitRoutes({ relay, reads }: Dashboard): ApiRoute[] {
  return [
    route(
      'get',
      '/api/v1/limits',
      'usage:read',
      ANY_ROLE,
      { query: LimitsQuery, reply: LimitList },
      async ({ request }, who) => {
        const listed = await listLimits(relay, reads, request, who);
        if (listed instanceof ApiError) return listed;
        return { object: 'list', ...listed } satisfies LimitList;
      },
    ),
    route(
      'get',
      '/api/v1/limits/forecasts',
      'usage:read',
      ANY_ROLE,
      { query: LimitsQuery, reply: ForecastList },
      async ({ request }, who) => {
        const listed = await listLimits(relay, reads, request, who);
        if (listed instanceof ApiError) return listed;
        const { data, limits_as_of: asOf } = listed;
        const forecasts = await withReadSlot(reads, holderOf(who), () =>
          forecastsOf(reads, data, Date.parse(asOf)),
        );
        if (forecasts instanceof ApiError) return forecasts;
        return {
          object: 'list',
          data: data.flatMap(({ subject, meter, window }, index) => {
            const forecast = forecasts[index] ?? null;
            return forecast === null ? [] : [{ subject, meter, window, ...forecast }];
          }),
          forecast_as_of: asOf,
        } satisfies ForecastList;
      },
    ),
  ];
}

/** The limits that a query asks for, as far as the member may see them. */
async function listLimits(
  relay: Relay,
  reads: ReadStore,
  request: Request,
  who: Caller,
): Promise<Omit<LimitList, 'object'> | ApiError> {
  const { readModel } = relay;
  const query = readQuery(LimitsQuery, request.url);
  if (query instanceof ApiError) return query;
  if (!hasCurrentLimits(relay)) return LIMITS_UNAVAILABLE;
  const key = query.key === undefined ? null : readModel.key(query.key);
  const id = query.account ?? key?.account ?? who.ownAccount ?? '';
  const account = readModel.account(id);
  const isTheirs = who.role !== 'member' || id === who.ownAccount;
  if (!account || !isTheirs || key === undefined || (key !== null && key.account !== id))
    return new ApiError('not_found');

  const now = new Date(readModel.nowMs());
  const { shown, omitted } = bounded(subjectsOf(relay, account, key, now));
  const data = await withReadSlot(reads, holderOf(who), () => readRows(relay, shown));
  if (data === null) return LIMITS_UNAVAILABLE;
  if (data instanceof ApiError) return data;
  return { data, rows_omitted: omitted, limits_as_of: now.toISOString() };
}

/**
 * Reports to Postgres what this server's calls of an account have used, as far as it answers in time. Other
 * servers report within `REPORT_EVERY_MS`.
 */
export async function reportUsage(relay: Relay, account: Account): Promise<void> {
  const now = new Date(relay.readModel.nowMs());
  const { shown } = bounded(subjectsOf(relay, account, null, now));
  await relay.instance.limits.figures(shown.map(({ limits }) => limits));
}

const hasCurrentLimits = ({ readModel, instance }: Relay): boolean =>
  readModel.isCurrent() && instance.appender.mode === 'up';

/** An account with limits, and those of its active keys, or the one `key`, that have limits. */
function subjectsOf(relay: Relay, account: Account, key: Key | null, now: Date): Subject[] {
  const { readModel } = relay;
  const keys = key === null ? readModel.keysOf(account.id).filter((each) => isActiveKey(each, now)) : [key];
  const ofAccount = readModel.accountAccess(account)?.limits ?? null;
  return [
    ...(ofAccount === null ? [] : [{ limits: ofAccount, keyName: null }]),
    ...keys.flatMap((each) => ofKey(relay, each)),
  ];
}

function ofKey({ readModel }: Relay, key: Key): Subject[] {
  const limits = readModel.keyAccess(key)?.limits ?? null;
  return limits === null ? [] : [{ limits, keyName: key.name }];
}

/** The subjects whose limits fit into a list; the account's come first and always fit. */
function bounded(subjects: readonly Subject[]): { shown: Subject[]; omitted: number } {
  let rows = 0;
  const shown = subjects.filter(({ limits }) => (rows += limits.limits.length) <= LIMITS_LISTED_MAX);
  return { shown, omitted: rows - shown.reduce((sum, { limits }) => sum + limits.limits.length, 0) };
}

/** @returns null if the store is unavailable: without it, limits would look unused. */
async function readRows({ instance }: Relay, subjects: readonly Subject[]): Promise<LimitRow[] | null> {
  const counters = await instance.limits.figures(subjects.map(({ limits }) => limits));
  if (counters === null) return null;
  const inForce = subjects.flatMap(({ limits, keyName }) =>
    limits.limits.map((limit) => ({ limit, limits, keyName })),
  );
  return counters.map((counter, index): LimitRow => {
    const { limit, limits, keyName } = inForce[index] as (typeof inForce)[number];
    const { used, reserved: held, remaining: free, overdraft, resets_at } = figuresOf(counter);
    return {
      subject: counter.subject,
      key_name: keyName,
      meter: counter.meter,
      window: counter.window,
      limit: counter.cap,
      used,
      reserved: held,
      remaining: free,
      window_started_at: counter.window === 'none' ? null : new Date(counter.start * 60_000).toISOString(),
      resets_at,
      enforcement: limit.enforcement,
      overdraft,
      overdraft_max: overdraftMaxOf(limit, limits),
    };
  });
}
