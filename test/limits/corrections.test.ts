import { isDeepStrictEqual } from 'node:util';
import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { compareTotals, readProjectedTotals } from '#db/audit/replay/diff.ts';
import { snapshotOf } from '#db/audit/replay/snapshot.ts';
import { ReplayState } from '#db/audit/replay/state.ts';
import { parseMonth, Statements } from '#db/audit/replay/statement.ts';
import type { EventOf, Placed } from '#db/events/events.ts';
import { publicId } from '#db/ids.ts';
import { minuteOf } from '#db/limits/windows.ts';
import type { AccountRow } from '#server/contract/accounts.ts';
import type { CorrectionList, RequestDetail } from '#server/contract/requests.ts';
import { type Control, withControl } from '#server/control/control.ts';
import { reprice, repriceReference } from '#server/control/reprice.ts';
import { callDemo, type SignedInClient, startPeopledRelay, statuses } from '../support/dashboard.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { accepted, connectAs, openLivingWriter, readLog, settled } from '../support/log/log-writer.ts';
import { projectAll } from '../support/projections/projected.ts';
import { type TestRelay, until } from '../support/relay.ts';

/** Corrections of ended requests: on a server that enforces limits, and over random histories. */

type Store = TestRelay['store'];
type Settled = EventOf<'request.settled'>;

const ofType = <T extends Placed['event']['type']>(log: readonly Placed[], type: T) =>
  log.flatMap(({ event }) => (event.type === type ? [event as EventOf<T>] : []));

/**
 * Asserts that projections, replay and statements have the same figures, and that `daybook.correction` has
 * the corrections of the log.
 */
async function expectConsistent(store: Store): Promise<ReplayState> {
  let log = await readLog(store);
  // Rejections are recorded a moment later, so the log may grow between the two.
  for (let before = -1; before !== log.length;) {
    before = log.length;
    await projectAll(store);
    log = await readLog(store);
  }
  const state = new ReplayState();
  for (const event of log) state.apply(event);
  const client = await connectAs(store, 'worker');
  try {
    const projected = await readProjectedTotals(client);
    if (projected?.windows == null) throw new Error('the projections are incomplete');
    expect(compareTotals(state, projected)).toEqual([]);
    const { rows } = await client.query<{ position: string; reference: string; cost_nanousd: string | null }>(
      'select position, reference, cost_nanousd from daybook.correction order by position',
    );
    expect(rows.map((row) => [Number(row.position), row.reference, Number(row.cost_nanousd)])).toEqual(
      log.flatMap(({ event, position }) =>
        event.type === 'usage.adjusted' ? [[position, event.reference, event.cost_nanousd ?? 0]] : [],
      ),
    );
  } finally {
    await client.end();
  }
  const months = [...new Set(log.map(({ at }) => at.toISOString().slice(0, 7)))].map((name) => {
    const statements = new Statements(parseMonth(name) as NonNullable<ReturnType<typeof parseMonth>>);
    for (const event of log) statements.add(event);
    return statements.accounts.reduce((sum, each) => sum + statements.of(each).cost_nanousd, 0n);
  });
  expect(months.reduce((sum, each) => sum + each, 0n)).toBe(snapshotOf(state, state.at).total.cost_nanousd);
  return state;
}

let relay: TestRelay;
let administrator: SignedInClient;
let account: string;
let key: { id: string; secret: string };
let database: TestDatabase;

beforeAll(async () => {
  let ana: SignedInClient;
  ({ relay, administrator, ana } = await startPeopledRelay());
  account = ana.me.account.id;
  const quota = (meter: string, window: string) => ({ meter, window, limit: 10 ** 12, enforcement: 'hard' });
  const terms = { prepaid: true, quotas: [quota('tokens', 'day'), quota('cost_nanousd', 'month')] };
  await administrator.put('/api/v1/plans/prepaid', { terms });
  await administrator.put(`/api/v1/accounts/${account}/plan`, { plan: 'prepaid' });
  await administrator.put('/api/v1/prices', {
    model: 'daybook-demo',
    base: { input: 10_000_000_000, output: 20_000_000_000 },
  });
  await withControl(relay.store, 'test', (control) =>
    control.topUp({ id: account }, { amount: 100_000_000_000, reference: 'invoice 1' }),
  );
  key = (await ana.post<typeof key>('/api/v1/keys', { name: 'narrow' })).body;
  database = await createDatabase();
});
afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await database?.[Symbol.asyncDispose]();
});

const correct = (request: string, fields: object) =>
  administrator.post<{ error: { message: string } }>(`/api/v1/requests/${request}/corrections`, {
    reason: 'The provider billed less.',
    ...fields,
  });
/** Used units of the account's windows as they are enforced, once the server has reported them. */
async function enforced(): Promise<Record<string, number>> {
  const client = await connectAs(relay.store, 'worker');
  try {
    const { rows } = await client.query<{ name: string; used: string }>(
      `select meter || ' ' || window_kind as name, used + overdrawn + adjusted as used
        from daybook.allowance where subject = $1 and window_kind > 1`,
      [`account/${account}`],
    );
    return Object.fromEntries(rows.map(({ name, used }) => [name, Number(used)]));
  } finally {
    await client.end();
  }
}
/** By meter and window: tokens of the day, cost of the month, and the balance. */
const windows = (tokens: number, cost: number) => ({ '2 3': tokens, '3 5': cost, '3 6': cost });
const enforcedIs = (expected: object) =>
  until(enforced, (now) => isDeepStrictEqual(now, expected), JSON.stringify(expected));

test('a correction changes the current windows and the balance, once for each reference', async () => {
  expect([await callDemo(relay, key.secret), await callDemo(relay, key.secret)]).toEqual(['200', '200']);
  const ended = await until(
    async () => ofType(await relay.readLog(), 'request.settled'),
    (events) => events.length === 2,
    'both calls have ended',
  );
  const sum = (of: (event: Settled) => number): number =>
    ended.reduce((total, event) => total + of(event), 0);
  const tokens = sum(({ input_tokens, output_tokens }) => input_tokens + output_tokens);
  const cost = sum(({ cost_nanousd = 0 }) => cost_nanousd);
  expect(cost).toBeGreaterThan(0);
  await enforcedIs(windows(tokens, cost));
  const [one] = ended as [Settled];
  const paid = one.cost_nanousd ?? 0;

  const deltas = { cost_nanousd: -paid, upstream_cost_nanousd: 3, output_tokens: -1, reference: 'bill 7' };
  await projectAll(relay.store);
  const replies = await Promise.all(Array.from({ length: 4 }, () => correct(one.request, deltas)));
  expect(statuses(replies)).toEqual([200, 409, 409, 409]);
  expect(await enforced()).toEqual(windows(tokens - 1, cost - paid));
  expect(await correct(one.request, { cost_nanousd: -1, reference: 'bill 8' })).toMatchObject({
    status: 400,
  });
  expect(await correct(one.request, { hold_tokens: 1, reference: 'bill 8' })).toMatchObject({ status: 400 });
  expect(await correct(one.request, { cost_nanousd: 0, reference: 'bill 8' })).toMatchObject({ status: 400 });
  expect(await correct(one.request, { cost_nanousd: 5, reference: 'bill 8' })).toMatchObject({ status: 200 });
  expect(await enforced()).toEqual(windows(tokens - 1, cost - paid + 5));
  await expectConsistent(relay.store);

  const { body } = await administrator.get<RequestDetail>(`/api/v1/requests/${one.request}`);
  expect(body).toMatchObject({
    cost_nanousd: paid,
    corrected: {
      corrections: 2,
      cost_nanousd: 5,
      upstream_cost_nanousd: paid + 8,
      output_tokens: one.output_tokens - 1,
    },
  });
  expect(body.corrections).toMatchObject([
    { reference: 'bill 7', cost_nanousd: -paid, upstream_cost_nanousd: 3, output_tokens: -1 },
    { reference: 'bill 8', cost_nanousd: 5, upstream_cost_nanousd: 5 },
  ]);

  const list = await administrator.get<CorrectionList>(`/api/v1/accounts/${account}/corrections`);
  expect(list.body).toEqual({
    object: 'list',
    data: body.corrections.toReversed().map((each) => ({ request: one.request, ...each })),
    has_more: false,
  });
  expect(list.body.data[0]).toMatchObject({
    reason: 'The provider billed less.',
    adjusted_by: `member/${administrator.me.member.id}`,
  });
  const { body: row } = await administrator.get<AccountRow>(`/api/v1/accounts/${account}`);
  expect(row.month).toMatchObject({ corrections: 2, correction_cost_nanousd: String(5 - paid) });
});

test('a correction can overdraw a balance, which admits calls again once it is given back', async () => {
  const [one] = ofType(await relay.readLog(), 'request.settled') as [Settled];
  const all = 200_000_000_000;
  expect(await correct(one.request, { cost_nanousd: all, reference: 'late' })).toMatchObject({ status: 200 });
  expect(
    await until(
      () => callDemo(relay, key.secret),
      (reply) => reply !== '200',
      'a rejected call',
    ),
  ).toBe('429 insufficient_quota');
  expect(await correct(one.request, { cost_nanousd: -all, reference: 'not late' })).toMatchObject({
    status: 200,
  });
  await until(
    () => callDemo(relay, key.secret),
    (reply) => reply === '200',
    'a call',
  );
  await expectConsistent(relay.store);
});

test('processes that correct a request at once never decide on the same state of it', async () => {
  const endings = async () => ofType(await relay.readLog(), 'request.settled');
  const { length } = await endings();
  expect(await callDemo(relay, key.secret)).toBe('200');
  const one = (await until(endings, (now) => now.length > length, 'the call has ended')).at(-1) as Settled;
  await projectAll(relay.store);
  const { cost_nanousd: paid = 0 } = one;
  // Each alone would give back all of the charge.
  const results = await Promise.allSettled(
    ['a', 'a', 'b', 'c'].map((reference) =>
      withControl(relay.store, 'test', (control) =>
        control.correctUsage(null, one.request, {
          deltas: { cost_nanousd: -paid },
          reference,
          reason: 'test',
        }),
      ),
    ),
  );
  const outcomes = results.map((each) => (each.status === 'fulfilled' ? 'done' : String(each.reason)));
  expect(
    outcomes.filter((each) => each === 'done'),
    outcomes.join('\n'),
  ).toHaveLength(1);
  await expectConsistent(relay.store);
});

test('a correction changes no limit that is newer than its call', async () => {
  const { length } = await relay.readLog();
  expect(await callDemo(relay, key.secret)).toBe('200');
  const settledAfter = async () => ofType((await relay.readLog()).slice(length), 'request.settled');
  const [old] = (await until(settledAfter, (now) => now.length === 1, 'the call has ended')) as [Settled];
  const week = { meter: 'tokens', window: 'week', limit: 10 ** 12, enforcement: 'hard' } as const;
  await relay.control((control) => control.overrideTerms({ id: account }, { quotas: [week] }, 'keep'));
  expect(await callDemo(relay, key.secret)).toBe('200');
  const [, next] = await until(settledAfter, (now) => now.length === 2, 'both calls have ended');
  const used = (next?.input_tokens ?? 0) + (next?.output_tokens ?? 0);
  const inWeek = async (): Promise<number> => (await enforced())['2 4'] ?? 0;
  await until(inWeek, (units) => units === used, `${used} tokens of the week`);
  await projectAll(relay.store);
  expect(await correct(old.request, { output_tokens: 5, reference: 'older' })).toMatchObject({ status: 200 });
  expect(await inWeek()).toBe(used);
  await expectConsistent(relay.store);
});

/** Appends corrections, but fails after some of them, before or after one is durable. */
function failing(control: Control, after: number, isDurable: boolean): Control {
  let left = after;
  return {
    actor: control.actor,
    appendCorrections: async (...values: Parameters<Control['appendCorrections']>) => {
      if (left-- > 0) return control.appendCorrections(...values);
      if (isDurable) await control.appendCorrections(...values);
      throw new Error('killed');
    },
  } as unknown as Control;
}

const anyCall = fc.record({ input: fc.nat(2_000), output: fc.nat(500), isPriced: fc.boolean() });
const anyRound = fc.record({
  calls: fc.array(anyCall, { maxLength: 12 }),
  corrections: fc.array(fc.record({ which: fc.nat(50), cost: fc.nat(900), tokens: fc.nat(40) }), {
    maxLength: 4,
  }),
  price: fc.integer({ min: 1, max: 9_000_000 }),
  /** Kills of the repricing: after how many batches, and whether the batch of the kill is durable. */
  kills: fc.array(fc.tuple(fc.nat(3), fc.boolean()), { maxLength: 3 }),
});

test('replay equals the incremental figures over random calls, corrections, repricings, kills', async () => {
  await using writer = await openLivingWriter(database);
  const [owner, ownKey] = [publicId(), publicId()];
  await withControl(database, 'test', (control, client) =>
    fc.assert(
      fc.asyncProperty(fc.array(anyRound, { minLength: 1, maxLength: 3 }), async (rounds) => {
        for (const { calls, corrections, price, kills } of rounds) {
          await writer
            .append(
              calls.flatMap(({ input, output, isPriced }) => {
                const call = accepted({
                  account: owner,
                  key: ownKey,
                  model: 'priced',
                  admitted_minute: minuteOf(Date.now()),
                });
                const usage = { input_tokens: input, cache_read_tokens: 0, output_tokens: output };
                const cost = isPriced ? { cost_nanousd: 7 * input } : {};
                return [call, settled(call, { ...usage, ...cost, reasoning_tokens: 0 })];
              }),
            )
            .catch((error: unknown) => {
              // An empty batch is refused.
              if (calls.length > 0) throw error;
            });
          await projectAll(database);
          const ended = ofType(await readLog(database), 'request.settled');
          for (const [index, { which, cost, tokens }] of corrections.entries()) {
            const call = ended[which % Math.max(1, ended.length)];
            if (call === undefined) continue;
            await control
              .correctUsage(null, call.request, {
                deltas: { cost_nanousd: cost - 450, input_tokens: tokens },
                reference: `bill ${index}`,
                reason: 'test',
              })
              // Below zero, or with the reference already.
              .catch((error: Error) => expect(error.name).toBe('DecisionError'));
          }
          await control.setPrice('priced', { base: { input: price * 1_000, output: price } });
          const { prices } = await control.load();
          const part = {
            from: new Date(0),
            to: new Date(Date.now() + 3_600_000),
            account: null,
            model: null,
          };
          const origin = { reference: repriceReference(part, prices), reason: 'test' };
          for (const [after, isDurable] of kills)
            await reprice(
              client,
              prices,
              part,
              { ...origin, control: failing(control, after, isDurable) },
              3,
            ).catch((error: Error) => expect(error.message).toBe('killed'));
          await reprice(client, prices, part, { ...origin, control }, 3);
          const { repricing } = await reprice(client, prices, part, null);
          expect(repricing.lines.every(({ changed }) => changed === 0)).toBe(true);
        }
        await expectConsistent(database);
        const made = ofType(await readLog(database), 'usage.adjusted').map(
          ({ request, reference }) => `${request} ${reference}`,
        );
        expect(new Set(made).size).toBe(made.length);
      }),
      { numRuns: 6 },
    ),
  );
});
