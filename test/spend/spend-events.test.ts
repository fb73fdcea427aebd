import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import type { SpendEvent } from '#db/spend/spend-event.ts';
import type { SpendEventPage } from '#server/contract/spend-events.ts';
import { accepted, openLivingWriter, settled, type Writer } from '../support/log/log-writer.ts';
import { type ApiReader, readerWith } from '../support/reader.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';

/** Spend events over a real socket, from a log that a test has written. */

let relay: TestRelay;
let writer: Writer;

beforeAll(async () => {
  relay = await startRelay();
  writer = await openLivingWriter(relay.store);
});

afterAll(async () => {
  await writer?.[Symbol.asyncDispose]();
  await relay?.[Symbol.asyncDispose]();
});

type Tenant = { account: string; key: string; reader: ApiReader };

async function tenant(name: string, reads: 'key' | 'account' = 'key'): Promise<Tenant> {
  const { id: account } = await relay.createAccount(name);
  return keyOf({ account }, name, reads);
}

async function keyOf({ account }: Pick<Tenant, 'account'>, name: string, reads: 'key' | 'account') {
  const { id: key, secret } = await relay.createKey({ account: name });
  if (reads === 'account')
    await relay.control((control) =>
      control.restrictKey(key, {
        set: { reads },
        drop: [],
        clear: false,
        expiresAt: undefined,
        windows: 'keep',
      }),
    );
  return { account, key, reader: readerWith(relay.port, secret) };
}

async function page(reader: ApiReader, query = ''): Promise<SpendEventPage> {
  const answer = await reader.get<SpendEventPage>(`/v1/spend-events${query}`);
  expect(answer.status, answer.text).toBe(200);
  return answer.json;
}

/** All pages from a position on. */
async function all(reader: ApiReader, limit = 100, query = ''): Promise<SpendEvent[]> {
  const events: SpendEvent[] = [];
  for (let after = 0; ;) {
    const { data, next_after, has_more } = await page(reader, `?limit=${limit}&after=${after}${query}`);
    events.push(...data);
    if (!has_more) return events;
    expect(next_after).toBeGreaterThan(after);
    after = next_after;
  }
}

const call = ({ account, key }: Pick<Tenant, 'account' | 'key'>, changes = {}) =>
  accepted({ account, key, ...changes });
const end = (begun: EventOf<'request.accepted'>, cost: number, changes = {}) =>
  settled(begun, { cost_nanousd: cost, upstream_cost_nanousd: cost - 1, ...changes });

function corrected(
  { request, account, key, model, end_reason }: EventOf<'request.settled'>,
  cost: number,
): EventOf<'usage.adjusted'> {
  return {
    type: 'usage.adjusted',
    ...{ request, account, key, model, end_reason },
    cost_nanousd: cost,
    reference: 'bill-1',
    reason: 'provider bill',
    adjusted_by: 'test',
  };
}

test('each ended request, correction and payment is one event, in the order of the log', async () => {
  const one = await tenant('complete', 'account');
  const whom = { end_user: 'EndUser000000001', tags: ['Tag0000000000001'] };
  const [done, lost, open] = [call(one, { model: 'm-1', ...whom }), call(one), call(one)];
  const ending = end(done, 70, { answered_model: 'm-1-2026', usage_source: 'counted' });
  await writer.append([done, lost, open, ending]);
  const { request, account, key, model } = lost;
  const call2 = { request, account, key, model };
  await writer.append([
    {
      ...call2,
      type: 'request.abandoned',
      end_reason: 'abandoned',
      usage_source: 'estimated',
      hold_tokens: 9,
    },
  ]);
  await writer.correct([corrected(ending, -20)]);
  await relay.control((control) => control.topUp({ id: account }, { amount: 500, reference: 'pay-1' }));

  const events = await all(one.reader);
  expect(events).toMatchObject([
    {
      ...{ object: 'spend_event', type: 'request.settled', request: done.request, cost_nanousd: 70 },
      ...{ model: 'm-1', answered_model: 'm-1-2026', upstream: 'one', ...whom },
      ...{ input_tokens: 10, output_tokens: 20, usage_source: 'counted', estimated: true },
    },
    { type: 'request.abandoned', request, hold_tokens: 9, estimated: true },
    { type: 'usage.adjusted', request: done.request, cost_nanousd: -20, reference: 'bill-1' },
    { type: 'account.topped_up', amount_nanousd: 500, reference: 'pay-1' },
  ]);
  for (const { id, position } of events) expect(id).toBe(`0-${position}`);
  expect(events.map(({ position }) => position)).toEqual(
    events.map(({ position }) => position).toSorted((left, right) => left - right),
  );
});

test('a key reads its own events or its account’s, and never upstream costs', async () => {
  const first = await tenant('scoped');
  const whole = await keyOf(first, 'scoped', 'account');
  const other = await tenant('other');
  const begun = [call(first), call(whole), call(other)];
  await writer.append([...begun, ...begun.map((each, index) => end(each, index + 1))]);

  const costs = async ({ reader }: Tenant): Promise<unknown[]> =>
    (await all(reader)).map(({ cost_nanousd }) => cost_nanousd);
  expect(await costs(first)).toEqual([1]);
  expect(await costs(whole)).toEqual([1, 2]);
  expect(await costs(other)).toEqual([3]);
  expect(JSON.stringify(await all(whole.reader))).not.toContain('upstream_cost');
  const foreign = await page(first.reader, `?account=${other.account}`);
  expect(foreign.data).toEqual([]);
});

test('any page sizes give the same sequence, from every position', async () => {
  const one = await tenant('paged');
  const other = await tenant('beside');
  for (let batch = 0; batch < 12; batch++) {
    const begun = Array.from({ length: 1 + (batch % 5) }, (_, at) => call(at % 3 === 0 ? other : one));
    await writer.append([...begun, ...begun.map((each, at) => end(each, batch * 10 + at))]);
  }
  const whole = await all(one.reader, 1_000);
  expect(whole.length).toBeGreaterThan(15);
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 6 }),
      fc.nat({ max: whole.length - 1 }),
      async (limits, from) => {
        const start = whole[from]?.position ?? 0;
        const events: SpendEvent[] = [];
        let next = { next_after: start, has_more: true };
        for (let at = 0; next.has_more; at++) {
          const limit = limits[at % limits.length];
          const read = await page(one.reader, `?limit=${limit}&after=${next.next_after}`);
          events.push(...read.data);
          next = read;
        }
        expect(events).toEqual(whole.slice(from + 1));
      },
    ),
    { numRuns: 12 },
  );
});

test('filters are those of requests, and payments match only a filter by account', async () => {
  const one = await tenant('filtered', 'account');
  const begun = [call(one, { model: 'a' }), call(one, { model: 'b', session: 'Session000000001' })];
  await writer.append([
    ...begun,
    ...begun.map((each, index) =>
      end(each, index, index === 1 ? { end_reason: 'timed_out', status: 504 } : {}),
    ),
  ]);
  await relay.control((control) => control.topUp({ id: one.account }, { amount: 5, reference: 'pay-2' }));
  const types = async (query: string): Promise<string[]> =>
    (await all(one.reader, 100, query)).map(({ type, model = '' }) => `${type} ${model}`.trim());
  expect(await types('')).toEqual(['request.settled a', 'request.settled b', 'account.topped_up']);
  expect(await types(`&account=${one.account}`)).toHaveLength(3);
  expect(await types('&model=a')).toEqual(['request.settled a']);
  expect(await types('&session=Session000000001')).toEqual(['request.settled b']);
  expect(await types('&outcome=completed')).toEqual(['request.settled a']);
  expect(await types('&status=5xx')).toEqual(['request.settled b']);
});

test.each([
  ['limit=0', 'limit'],
  ['limit=1001', 'limit'],
  ['after=-1', 'after'],
  ['after=x', 'after'],
  ['error_code=a', 'error_code'],
])('%s is refused by name', async (query, param) => {
  const { reader } = await tenant(`refused ${query}`);
  const answer = await reader.get(`/v1/spend-events?${query}`);
  expect(answer.status).toBe(400);
  expect(answer.json.error.param).toBe(param);
});

test('a request without a key is a 401', async () => {
  expect((await readerWith(relay.port, 'dbk_unknown').get('/v1/spend-events')).status).toBe(401);
});
