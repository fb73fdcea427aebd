import { afterAll, beforeAll, expect, test } from 'vitest';
import { backtest } from '#server/backtest/run.ts';
import type { BacktestReport, BacktestStep, StartBacktest } from '#server/contract/backtest.ts';
import { callDemo, type SignedInClient, startPeopledRelay } from '../support/dashboard.ts';
import { connectAs } from '../support/log/log-writer.ts';
import type { TestRelay } from '../support/relay.ts';

/** Back-tests from the dashboard: of terms and prices that aren't saved yet. */

let relay: TestRelay;
let administrator: SignedInClient;
let secret: string;

const CALLS = 6;

beforeAll(async () => {
  ({ relay, administrator } = await startPeopledRelay());
  await administrator.put('/api/v1/plans/free', { terms: {} });
  await administrator.put(`/api/v1/accounts/${administrator.me.account.id}/plan`, { plan: 'free' });
  ({ secret } = (await administrator.post<{ secret: string }>('/api/v1/keys', { name: 'app' })).body);
  for (let call = 0; call < CALLS; call++) expect(await callDemo(relay, secret)).toBe('200');
  // A call is settled after its reply has ended.
  await relay.waitFor(
    (events) => events.filter(({ event }) => event.type === 'request.settled').length === CALLS,
  );
});
afterAll(() => relay?.[Symbol.asyncDispose]());

const start = (changes: object, signal: AbortSignal | null = null): Promise<Response> =>
  fetch(`${administrator.origin}/api/v1/backtests`, {
    method: 'POST',
    headers: {
      origin: administrator.origin,
      cookie: administrator.cookie,
      'content-type': 'application/json',
    },
    body: JSON.stringify(changes),
    signal,
  });

/** Runs a back-test to its end. */
async function run(changes: Partial<StartBacktest>): Promise<BacktestStep[]> {
  const reply = await start(changes);
  expect(reply.status).toBe(200);
  return (await reply.text())
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as BacktestStep);
}

async function reportOf(changes: Partial<StartBacktest>): Promise<BacktestReport> {
  const last = (await run(changes)).at(-1);
  if (last === undefined || !('report' in last)) throw new Error(`no report: ${JSON.stringify(last)}`);
  return last.report;
}

const terms = { quotas: [{ meter: 'requests', window: 'month', limit: 4, enforcement: 'soft' }] } as const;
const limited = { plan: { terms: { quotas: [...terms.quotas] } } };

/** The events of accounts, keys, plans and prices; that the log is read is recorded too. */
const recorded = async (): Promise<string[]> =>
  (await relay.readLog())
    .filter(({ stream, event }) => stream !== null && event.type !== 'log.read')
    .map(({ event }) => event.type);

test('reports what the back-test of the command line reports, and changes nothing', async () => {
  const before = await recorded();
  const report = await reportOf(limited);
  expect(report.calls).toMatchObject({ admitted: CALLS, newly_rejected: 2 });
  expect(report.keys).toMatchObject([{ name: 'app', rejected: 2 }]);
  const client = await connectAs(relay.store, 'auditor');
  const direct = await backtest(client, {
    changes: { plan: { terms: limited.plan.terms, scope: 'all' }, prices: [], models: new Map() },
    ...{ from: new Date(report.from), to: new Date(report.to), archiveDir: undefined },
  });
  await client.end();
  expect(report).toEqual(direct);
  expect(await recorded()).toEqual(before);
});

test('replaces the terms of the named plan only, and prices of models', async () => {
  expect((await reportOf({ plan: { ...limited.plan, of: 'free' } })).calls.newly_rejected).toBe(2);
  expect((await reportOf({ plan: { ...limited.plan, of: 'team' } })).calls.newly_rejected).toBe(0);
  const base = { input: 1_000_000, output: 1_000_000 };
  const priced = await reportOf({ prices: [{ model: 'daybook-demo*', base }] });
  expect(Number(priced.cost.after_nanousd)).toBeGreaterThan(Number(priced.cost.before_nanousd));
  const ofPlan = await reportOf({ prices: [{ model: 'daybook-demo*', plan: 'free', base }] });
  expect(ofPlan.cost.after_nanousd).toBe(priced.cost.after_nanousd);
  expect(ofPlan.cost.upstream_after_nanousd).toBe(ofPlan.cost.upstream_before_nanousd);
  const ofOther = await reportOf({ prices: [{ model: 'daybook-demo*', plan: 'team', base }] });
  expect(ofOther.cost.after_nanousd).toBe(ofOther.cost.before_nanousd);
});

test('rejects a back-test without changes, and invalid terms', async () => {
  expect(await administrator.post('/api/v1/backtests', {})).toMatchObject({ status: 400 });
  expect(
    await administrator.post('/api/v1/backtests', { plan: { terms: { requests_per_minute: -1 } } }),
  ).toMatchObject({ status: 400, body: { error: { param: 'plan.terms.requests_per_minute' } } });
});

test('keeps a result for the same changes, until it is asked to replay the calls again', async () => {
  const changes = { plan: { terms: { requests_per_minute: 3 } } };
  const [first, kept] = [(await run(changes)).at(-1), (await run(changes)).at(-1)];
  expect(kept).toEqual(first);
  expect((await run({ ...changes, refresh: true })).at(-1)).not.toEqual(first);
});

test('runs alone, serves calls meanwhile, and ends when its client disconnects', async () => {
  const held = await connectAs(relay.store, 'owner');
  const other = { plan: { terms: { requests_per_minute: 1 } } };
  try {
    // It waits here before it reads the log.
    await held.query('begin; lock table daybook.correction in access exclusive mode');
    const leave = new AbortController();
    const begun = await start({ plan: { terms: { requests_per_minute: 2 } } }, leave.signal);
    expect(begun.status).toBe(200);
    expect(await administrator.post('/api/v1/backtests', other)).toMatchObject({
      status: 409,
      code: 'not_allowed',
    });
    expect(await callDemo(relay, secret)).toBe('200');
    leave.abort();
    // Its lock is free.
    await expect
      .poll(async () => {
        const again = new AbortController();
        const { status } = await start(other, again.signal);
        again.abort();
        return status;
      })
      .toBe(200);
  } finally {
    await held.end();
  }
  await expect.poll(async () => (await start({ ...other, refresh: true })).status).toBe(200);
});
