import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ForecastList } from '#server/contract/limits.ts';
import { closeClient } from '#db/postgres/connect.ts';
import { type SignedInClient, startPeopledRelay } from '../support/dashboard.ts';
import { connectAs } from '../support/log/log-writer.ts';
import type { TestRelay } from '../support/relay.ts';

/** Forecasts of limits, by the dashboard's API and by that of keys. */

let relay: TestRelay;
let ana: SignedInClient;
let ben: SignedInClient;
let key: { id: string; secret: string };
const END_USER = 'ada@example.com';

beforeAll(async () => {
  const started = await startPeopledRelay();
  ({ relay, ana, ben } = started);
  const account = ana.me.account.id;
  const quotas = [
    { meter: 'tokens', window: 'day', limit: 1_000 },
    { meter: 'tokens', window: 'month', limit: 1_000_000_000 },
    { meter: 'tokens', window: 'month', limit: 1_000_000_000, per: 'end_user' },
    { meter: 'requests', window: 'month', limit: 1_000 },
  ];
  await started.administrator.put('/api/v1/plans/budgets', { terms: { quotas } });
  await started.administrator.put(`/api/v1/accounts/${account}/plan`, { plan: 'budgets' });
  key = (await ana.post<typeof key>('/api/v1/keys', { name: 'laptop' })).body;
  const worker = await connectAs(relay.store, 'worker');
  // A thousand tokens in each hour of four weeks.
  await worker.query(
    `insert into projection.usage_history (subject, hour, account, tokens, cost_nanousd)
      select $1, date_trunc('hour', clock_timestamp(), 'UTC') - interval '1 hour' * n, $2, 1000, 0
      from generate_series(1, 672) n`,
    [`account/${account}`, account],
  );
  await closeClient(worker);
});
afterAll(() => relay?.[Symbol.asyncDispose]());

test("quotas are projected to their windows' ends, with a range and the time of the limit", async () => {
  const { body } = await ana.get<ForecastList>('/api/v1/limits/forecasts');
  expect(body.data.map(({ meter, window }) => `${meter} ${window}`)).toEqual(['tokens day', 'tokens month']);
  const nowMs = Date.parse(body.forecast_as_of);
  const now = new Date(nowMs);
  const monthMs = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1) - nowMs;
  const dayMs = 86_400_000 - (nowMs % 86_400_000);
  for (const [row, restMs] of [
    [body.data[0], dayMs],
    [body.data[1], monthMs],
  ] as const) {
    const projection = row?.projection;
    // Nothing was used yet, and even usage has no other range.
    const expected = (restMs / 3_600_000) * 1_000;
    expect(Math.abs((projection?.projected ?? 0) - expected)).toBeLessThanOrEqual(1);
    expect([projection?.low, projection?.high]).toEqual([projection?.projected, projection?.projected]);
  }
  const exhaustedAt = body.data[0]?.projection?.exhausted_at ?? null;
  if (dayMs > 3_700_000) expect(Date.parse(String(exhaustedAt)) - nowMs).toBe(3_600_000);
  expect(body.data[1]?.projection?.exhausted_at).toBeNull();
});

test("members get their own account's forecasts alone", async () => {
  const path = `/api/v1/limits/forecasts?account=${ana.me.account.id}`;
  expect((await ben.get(path)).status).toBe(404);
  expect((await ana.get(path)).status).toBe(200);
});

test('GET /v1/usage has them where they are asked for, also of the end user that it names', async () => {
  type Limits = { limits: { scope: string; meter: string; window: string; forecast?: unknown }[] };
  const read = async (query: string): Promise<Limits['limits']> => {
    const reply = await fetch(`${relay.baseUrl}/usage${query}`, {
      headers: { authorization: `Bearer ${key.secret}`, 'x-daybook-user': END_USER },
    });
    return ((await reply.json()) as Limits).limits;
  };
  expect((await read('')).some((limit) => 'forecast' in limit)).toBe(false);
  const limits = await read('?forecast=true');
  const forecastOf = (scope: string, meter: string) =>
    limits.find((limit) => limit.scope === scope && limit.meter === meter && limit.window === 'month')
      ?.forecast;
  expect(forecastOf('account', 'tokens')).toMatchObject({ run_rate: 0, projection: { exhausted_at: null } });
  expect(forecastOf('account', 'requests')).toBeNull();
  // It has made no calls.
  expect(forecastOf('end_user', 'tokens')).toEqual({ run_rate: 0, projection: null });
});
