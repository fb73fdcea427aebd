import { afterAll, beforeAll, expect, test } from 'vitest';
import { compareTotals, readProjectedTotals } from '#db/audit/replay/diff.ts';
import { shownWindows } from '#db/audit/replay/snapshot.ts';
import { ReplayState } from '#db/audit/replay/state.ts';
import type { EventOf } from '#db/events/events.ts';
import { uuidv7 } from '#db/ids.ts';
import { registerInstance, retireInstance } from '#db/instances/instance.ts';
import { adjustQuotas } from '#db/limits/adjustments.ts';
import type { LimitList } from '#server/contract/limits.ts';
import type { AdjustmentList } from '#server/contract/accounts.ts';
import { listAdjustments } from '#server/dashboard/accounts/adjustments.ts';
import { withControl } from '#server/control/control.ts';
import { callDemo, type SignedInClient, startPeopledRelay, statuses } from '../support/dashboard.ts';
import { connectAs } from '../support/log/log-writer.ts';
import { projectAll } from '../support/projections/projected.ts';
import { type TestRelay, until } from '../support/relay.ts';

/** Adjustments of usage by an administrator, on a server that enforces the limits. */

let relay: TestRelay;
let administrator: SignedInClient;
let ana: SignedInClient;
let account: string;
let key: { id: string; secret: string };

type ApiCode = { code: string };
const quota = (meter: string, window: string, limit: number) => ({
  meter,
  window,
  limit,
  enforcement: 'hard',
});

beforeAll(async () => {
  ({ relay, administrator, ana } = await startPeopledRelay());
  account = ana.me.account.id;
  const quotas = [quota('requests', 'day', 3), quota('requests', 'month', 9)];
  await administrator.put('/api/v1/plans/daily', { terms: { quotas } });
  await administrator.put(`/api/v1/accounts/${account}/plan`, { plan: 'daily' });
  const terms = { quotas: [quota('requests', 'week', 9)] };
  key = (await ana.post<typeof key>('/api/v1/keys', { name: 'narrow', terms })).body;
});
afterAll(() => relay?.[Symbol.asyncDispose]());

const adjust = (fields: object, adjustment = uuidv7()) =>
  administrator.post(`/api/v1/accounts/${account}/adjustments`, {
    meter: 'requests',
    amount: -1,
    reason: 'The server was killed.',
    adjustment,
    ...fields,
  });
/** One request of the account, by a command. */
const giveBack = (window: 'day' | 'month') => ({
  meter: 'requests' as const,
  amount: -1,
  window,
  key: null,
  request: null,
  adjustment: uuidv7(),
  reason: 'test',
});
const call = (): Promise<string> => callDemo(relay, key.secret);
const adjusted = async () =>
  (await relay.readLog()).flatMap(({ event }) => (event.type === 'quota.adjusted' ? [event] : []));

/** The used units of each quota: `day 3 month 3 week 3`. */
async function used(): Promise<string> {
  const { data } = (await ana.get<LimitList>(`/api/v1/limits?key=${key.id}`)).body;
  return data
    .map((each) => `${each.window} ${each.used}`)
    .toSorted()
    .join(' ');
}
const usedIs = (expected: string) => until(used, (now) => now === expected, expected);

/** The current windows by replay of the log, after the tables were found to be equal to it. */
async function replayed(): Promise<string> {
  // Rejections are recorded a moment later, so the log may grow between the two.
  let events = await relay.readLog();
  for (let before = -1; before !== events.length;) {
    before = events.length;
    await projectAll(relay.store);
    events = await relay.readLog();
  }
  const state = new ReplayState();
  for (const event of events) state.apply(event);
  const worker = await connectAs(relay.store, 'worker');
  try {
    const projected = await readProjectedTotals(worker);
    if (projected?.windows == null) throw new Error('the projections are incomplete');
    expect(compareTotals(state, projected)).toEqual([]);
    const { rows } = await worker.query<{ window: string }>(
      `select concat_ws(' ', subject, window_kind, used + overdrawn + adjusted) as window
        from daybook.allowance where window_kind > 1
        except select concat_ws(' ', subject, window_kind, used) from projection.quota_window`,
    );
    expect(rows).toEqual([]);
  } finally {
    await worker.end();
  }
  expect(state.faults).toEqual([]);
  return shownWindows(state, state.at)
    .map(({ window, settled }) => `${window} ${settled}`)
    .toSorted()
    .join(' ');
}

test('units given back under a hard quota admit calls again, once however often it is sent', async () => {
  expect([await call(), await call(), await call(), await call()]).toEqual([
    ...['200', '200', '200'],
    '429 insufficient_quota',
  ]);
  await usedIs('day 3 month 3 week 3');
  const id = uuidv7();
  const replies = await Promise.all(Array.from({ length: 6 }, () => adjust({ window: 'day' }, id)));
  expect(statuses(replies)).toEqual([200, 409, 409, 409, 409, 409]);
  expect(replies.filter(({ code }) => code === 'already_done')).toHaveLength(5);
  await usedIs('day 2 month 3 week 3');
  expect(await adjusted()).toHaveLength(1);
  expect(await until(call, (status) => status === '200', 'a call after the adjustment').then(call)).toBe(
    '429 insufficient_quota',
  );
  await usedIs('day 3 month 4 week 4');
  expect(await replayed()).toBe('day 3 month 4 week 4');
});

test('an adjustment by a key changes the quotas of both, in one append', async () => {
  expect(await adjust({ key: key.id, amount: -2 })).toMatchObject({ status: 200 });
  await usedIs('day 1 month 2 week 2');
  expect((await adjusted()).slice(-3)).toMatchObject([
    { account, window: 'day', amount: -2, actor: `member/${administrator.me.member.id}` },
    { account, window: 'month' },
    { account, window: 'week', key: key.id },
  ]);
  expect(await replayed()).toBe('day 1 month 2 week 2');
});

test('concurrent retries on several connections adjust usage once, and a repeated append too', async () => {
  await usedIs('day 1 month 2 week 2');
  const command = giveBack('month');
  const before = (await adjusted()).length;
  const results = await Promise.allSettled(
    Array.from({ length: 4 }, () =>
      withControl(relay.store, 'test', (control) => control.adjustQuotas({ id: account }, command)),
    ),
  );
  const codes = results.map((each) => (each.status === 'fulfilled' ? 'done' : (each.reason as ApiCode).code));
  expect(codes.toSorted()).toEqual(['already_done', 'already_done', 'already_done', 'done']);
  await usedIs('day 1 month 1 week 2');

  // The same batch on two connections: the reply to the first was lost.
  const [event] = (await adjusted()).slice(-1) as [EventOf<'quota.adjusted'>];
  const again = { event: { ...event, amount: 1 }, version: before + 2 };
  const line = {
    subject: `account/${account}`,
    meter: event.meter,
    window: event.window,
    start: event.window_start,
    reset: event.reset_position,
    amount: 1,
    cap: 9,
    terms: 0,
  };
  const clients = await Promise.all([connectAs(relay.store, 'relay'), connectAs(relay.store, 'relay')]);
  const instance = await registerInstance(clients[0], 'test');
  const positions = await Promise.all(
    clients.map((client) => adjustQuotas(client, instance, 1, [line], [again])),
  );
  expect(positions[0]).toBe(positions[1]);
  await retireInstance(clients[0], instance);
  await Promise.all(clients.map((client) => client.end()));
  expect(await adjusted()).toHaveLength(before + 2);
  await usedIs('day 1 month 2 week 2');
  expect(await replayed()).toBe('day 1 month 2 week 2');
});

test('usage falls never below zero, and no limit is exceeded', async () => {
  const before = (await adjusted()).length;
  // The month has two, but the day only one.
  expect(await adjust({ amount: -2 })).toMatchObject({ status: 409, code: 'not_allowed' });
  expect(await adjust({ amount: 3 })).toMatchObject({ status: 409, code: 'not_allowed' });
  expect(await adjust({ amount: 0.5 })).toMatchObject({ status: 400 });
  expect(await adjust({ meter: 'tokens' })).toMatchObject({ status: 409, code: 'not_allowed' });
  expect(await adjust({ key: 'Unknown0' })).toMatchObject({ status: 404 });
  expect(await adjusted()).toHaveLength(before);
  await usedIs('day 1 month 2 week 2');
  expect(await adjust({ amount: 1, window: 'month' })).toMatchObject({ status: 200 });
  expect(await replayed()).toBe('day 1 month 3 week 2');
});

test('units given back by another process admit calls that were rejected without a request', async () => {
  expect(await adjust({ key: key.id })).toMatchObject({ status: 200 });
  await usedIs('day 0 month 2 week 1');
  expect([await call(), await call(), await call()]).toEqual(['200', '200', '200']);
  // No unit is reserved or leased any more, so the rejection that follows lasts until units are given back.
  await usedIs('day 3 month 5 week 4');
  expect(await call()).toBe('429 insufficient_quota');
  await withControl(relay.store, 'test', (control) => control.adjustQuotas({ id: account }, giveBack('day')));
  await until(call, (status) => status === '200', 'a call after the adjustment');
});

test('adjustments are listed for administrators and auditors, newest first, up to a bound', async () => {
  const events = (await adjusted()).toReversed();
  const { body } = await administrator.get<AdjustmentList>(`/api/v1/accounts/${account}/adjustments`);
  expect(body.rows_omitted).toBe(0);
  expect(
    body.data.map(({ meter, amount, window, key: of, reason, actor }) => ({
      meter,
      amount,
      window,
      key: of,
      reason,
      actor,
    })),
  ).toEqual(
    events.map(({ meter, amount, window, key: of = null, reason, actor }) => ({
      meter,
      amount,
      window,
      key: of,
      reason,
      actor,
    })),
  );
  expect(body.data.length).toBeGreaterThan(5);
  const client = await connectAs(relay.store, 'relay');
  const newest = await listAdjustments(client, account, 2);
  await client.end();
  expect(newest.data).toEqual(body.data.slice(0, 2));
  expect(newest.rows_omitted).toBe(body.data.length - 2);
  expect(await ana.get(`/api/v1/accounts/${account}/adjustments`)).toMatchObject({ status: 403 });
});
