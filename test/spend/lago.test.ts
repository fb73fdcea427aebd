import { afterEach, beforeEach, expect, test } from 'vitest';
import type { SinkConfigOf } from '#db/spend/sink-config.ts';
import type { SpendEvent } from '#db/spend/spend-event.ts';
import { openLago } from '../../worker/sinks/lago.ts';
import { randomFrom } from '../chaos/random.ts';
import { type LagoReceiver, startLago } from './lago-receiver.ts';

/** The Lago sink, with a stand-in that answers as Lago's API reference says. */

const SOURCE = 'daybook/0199';
const API_KEY = 'canary-key';
let lago: LagoReceiver;

beforeEach(async () => {
  lago = await startLago(API_KEY);
});
afterEach(() => lago[Symbol.asyncDispose]());

const open = (changes: Partial<SinkConfigOf<'lago'>> = {}) =>
  openLago(
    { kind: 'lago', url: lago.url, api_key: API_KEY, code: 'llm_usage', allow_private: true, ...changes },
    { id: 'LagoSink', source: SOURCE },
  );
const signal = () => AbortSignal.timeout(20_000);

const spend = (position: number, changes: Partial<SpendEvent> = {}): SpendEvent => ({
  object: 'spend_event',
  id: `0-${position}`,
  position,
  type: 'request.settled',
  at: '2026-01-02T03:04:05.678Z',
  account: 'Account1',
  cost_nanousd: 1_234_567_890 + position,
  ...changes,
});
const saved = () => [...lago.saved.values()];

test('an event has its id as transaction, its account as subscription, exact cents and figures', async () => {
  const event = spend(7, {
    key: 'Key00001',
    model: 'gpt-5.2-mini',
    tags: ['team:search', 'nightly'],
    input_tokens: 30,
    output_tokens: 12,
    estimated: false,
  });
  expect(await open().deliver([event], signal())).toEqual({ acknowledged: 1, fault: null });
  expect(saved()).toEqual([
    {
      transaction_id: 'daybook/0199/0-7',
      external_subscription_id: 'Account1',
      code: 'llm_usage',
      timestamp: '1767323045.678',
      precise_total_amount_cents: '123.4567897',
      properties: {
        type: 'request.settled',
        position: 7,
        account: 'Account1',
        key: 'Key00001',
        model: 'gpt-5.2-mini',
        tags: 'team:search,nightly',
        estimated: 'false',
        cost_nanousd: 1_234_567_897,
        tokens: 42,
        input_tokens: 30,
        output_tokens: 12,
        requests: 1,
      },
    },
  ]);
});

test.each([
  [0, '0'],
  [1, '0.0000001'],
  [10_000_000, '1'],
  [1_000_000_000, '100'],
  [-15_000_000, '-1.5'],
])('%i nano-dollars are %s cents', async (cost_nanousd, cents) => {
  await open().deliver([spend(1, { cost_nanousd })], signal());
  expect(saved()[0]?.precise_total_amount_cents).toBe(cents);
});

test('events of accounts without a subscription, and payments, are not sent', async () => {
  const batch = [
    spend(1),
    spend(2, { account: 'Account2' }),
    { ...spend(3, { type: 'account.topped_up', amount_nanousd: 5 }), cost_nanousd: 0 },
  ];
  const sink = open({ subscriptions: { Account1: 'sub_1' } });
  expect(await sink.deliver(batch, signal())).toEqual({ acknowledged: 3, fault: null });
  expect(saved().map((event) => event.external_subscription_id)).toEqual(['sub_1']);
});

test('a batch whose reply was lost is recognized, and the events beside it are saved', async () => {
  const sink = open();
  lago.next = ['lose'];
  const first = [spend(1), spend(2), spend(3)];
  expect(await sink.deliver(first, signal())).toMatchObject({ acknowledged: 0, fault: 'ECONNRESET' });
  expect(lago.saved.size).toBe(3);
  expect(await sink.deliver([...first, spend(4)], signal())).toEqual({ acknowledged: 4, fault: null });
  expect(saved().map((event) => event.transaction_id)).toEqual([1, 2, 3, 4].map((at) => `${SOURCE}/0-${at}`));
});

test('each event is saved once, with the sum of the log, through failures and lost replies', async () => {
  const random = randomFrom(11);
  const events = Array.from({ length: 900 }, (_, index) => spend(index + 1));
  const sink = open();
  for (let from = 0; from < events.length;) {
    lago.next = [(['reply', 'lose', 'fail'] as const)[random.below(3)] ?? 'reply'];
    const batch = events.slice(from, from + 1 + random.below(sink.batchMax));
    from += (await sink.deliver(batch, signal())).acknowledged;
  }
  expect(lago.saved.size).toBe(events.length);
  expect(Math.max(...lago.requests)).toBeLessThanOrEqual(100);
  const sumOf = (costs: (number | undefined)[]) =>
    costs.reduce<bigint>((sum, cost = 0) => sum + BigInt(cost), 0n);
  expect(sumOf(saved().map((event) => Number(event.properties?.['cost_nanousd'])))).toBe(
    sumOf(events.map((event) => event.cost_nanousd)),
  );
});

test('a refusal for another reason acknowledges nothing', async () => {
  const sink = open({ api_key: 'another' });
  expect(await sink.deliver([spend(1)], signal())).toEqual({ acknowledged: 0, fault: 'http_401' });
  const tooLong = Array.from({ length: 101 }, (_, index) => spend(index + 1));
  expect(await open().deliver(tooLong, signal())).toEqual({ acknowledged: 0, fault: 'http_422' });
});

test('a test event is of a metric that does not exist, so that it is not billed', async () => {
  expect(await open().test('test-1', signal())).toBeNull();
  expect(lago.requests).toEqual([1]);
  expect(lago.saved.size).toBe(0);
  expect(await open({ api_key: 'another' }).test('test-1', signal())).toBe('http_401');
});
