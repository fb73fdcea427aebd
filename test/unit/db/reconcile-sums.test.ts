import { expect, test } from 'vitest';
import type { Bill, BillLine } from '#db/reconcile/bill/line.ts';
import type { PricedPart, Rate } from '#db/pricing/parts.ts';
import { scheduleOf } from '#db/pricing/schedule.ts';
import type { Ending, RecordedAttempt } from '#db/reconcile/compare/attempts.ts';
import { Comparison, type CompareOptions } from '#db/reconcile/compare/comparison.ts';
import { costAt } from '#db/reconcile/compare/exact.ts';

/** Bills that state sums by day, model, credential and tier, without request ids. */

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const START = Date.parse('2026-11-01T00:00:00Z');
const RATE: Rate = { input: 2_000_000_000, output: 8_000_000_000, cache_read: 200_000_000 };
const rate = scheduleOf({ base: RATE }).base;

type Parts = { readonly [Part in PricedPart]?: number };
const quantitiesOf = (parts: Parts): Map<PricedPart, bigint> =>
  new Map(Object.entries(parts).map(([part, count]) => [part as PricedPart, BigInt(count)]));
const costOf = (parts: Parts): bigint => costAt(quantitiesOf(parts), rate, 0n) as bigint;

let calls = 0;
function attempt(at: number, parts: Parts, change: Partial<RecordedAttempt> = {}): RecordedAttempt {
  const startMs = START + at * DAY_MS + 3_600_000;
  return {
    request: `request-${++calls}`,
    account: 'account1',
    model: 'gpt',
    isLast: true,
    names: ['gpt-2026', 'gpt'],
    startMs,
    endMs: startMs + 1_000,
    upstream: 'openai',
    credential: 'AAAAAAAA',
    serviceTier: 'default',
    providerRequest: `id-${calls}`,
    ending: 'reported',
    quantities: quantitiesOf(parts),
    rate,
    cost: costOf(parts),
    charged: costOf(parts),
    isCorrected: false,
    ...change,
  };
}

/** The lines of a day: usage with the cost of each part. */
function day(at: number, parts: Parts, requests: number, change: Partial<BillLine> = {}): BillLine[] {
  return Object.entries(parts).map(([part, count], index) => ({
    place: `day ${at} ${part}`,
    kind: 'usage',
    from: new Date(START + at * DAY_MS),
    to: new Date(START + (at + 1) * DAY_MS),
    model: 'gpt-2026',
    credential: 'AAAAAAAA',
    serviceTier: 'default',
    requestId: null,
    part: part as PricedPart,
    quantity: BigInt(count),
    requests: index === 0 ? BigInt(requests) : null,
    cost: costOf({ [part]: count }),
    currency: 'USD',
    ...change,
  }));
}

function compare(
  lines: BillLine[],
  attempts: RecordedAttempt[],
  tolerance: CompareOptions['tolerance'] = { nanousd: 0n, ppm: 0 },
  timeZone = 'UTC',
) {
  const bill: Bill = {
    source: 'csv',
    provider: 'scripted',
    from: new Date(START),
    to: new Date(START + 10 * DAY_MS),
    timeZone,
    lines,
    unsupported: [],
    rounded: [],
  };
  const comparison = new Comparison(bill, {
    models: new Map(),
    credentials: new Map(),
    rates: new Map(),
    tolerance,
    knownCredentials: new Set(['AAAAAAAA', 'BBBBBBBB']),
    upstreams: null,
    otherRates: () => [],
  });
  for (const each of attempts) comparison.addCall([each]);
  const { totals, differences } = comparison.finish();
  expect(totals.unexplained).toBe(0n);
  expect(totals.log + totals.differences).toBe(totals.bill);
  return differences.map(({ class: name, amount_nanousd, is_within_tolerance: isWithin }) =>
    isWithin ? `${name} ${amount_nanousd} within` : `${name} ${amount_nanousd}`,
  );
}

const A = { input: 1_000, output: 100 };
const B = { input: 2_500, output: 40 };
const BOTH = { input: 3_500, output: 140 };
const nano = (parts: Parts): string => String(costOf(parts));

test('sums that agree have no difference', () => {
  expect(compare(day(0, BOTH, 2), [attempt(0, A), attempt(0, B)])).toEqual([]);
});

test('usage booked on the next day is a day boundary, and changes no total', () => {
  const lines = [...day(0, A, 1), ...day(1, BOTH, 2)];
  expect(compare(lines, [attempt(0, A), attempt(0, B), attempt(1, A)])).toEqual(['day_boundary 0']);
});

test('usage booked on the next day is a day boundary where the bill has no line of its day', () => {
  expect(compare(day(1, A, 1), [attempt(0, A)])).toEqual(['day_boundary 0']);
  expect(compare([...day(0, A, 1), ...day(4, B, 1)], [attempt(0, A), attempt(4, B), attempt(6, A)])).toEqual([
    `missing_there -${nano(A)}`,
  ]);
});

test('days of another time zone have the calls of that zone, and those of UTC are a day boundary', () => {
  const evening = attempt(2, A, { startMs: START + 3 * DAY_MS + 2 * HOUR_MS });
  // November 3rd of Los Angeles, eight hours behind UTC.
  const ofZone = day(2, A, 1).map((line) => ({
    ...line,
    from: new Date(line.from.getTime() + 8 * HOUR_MS),
    to: new Date(line.to.getTime() + 8 * HOUR_MS),
  }));
  expect(compare(ofZone, [evening], undefined, 'America/Los_Angeles')).toEqual([]);
  expect(compare(day(2, A, 1), [evening])).toEqual(['day_boundary 0']);
});

test('usage booked days later is late, and changes no total', () => {
  expect(compare(day(3, A, 1), [attempt(0, A)])).toEqual(['late_usage 0']);
});

test('a cost of all models together is divided by the usage that the bill states', () => {
  const searches = (model: string, count: number): BillLine[] =>
    day(0, { web_search: count }, 0, { model, cost: null, requests: null });
  const [shared] = day(0, { web_search: 3 }, 0, { model: null, quantity: null, requests: null });
  const price = 10_000_001n;
  const searching = (model: string, count: number): RecordedAttempt =>
    attempt(
      0,
      { web_search: count },
      {
        ...{ model, names: [model], cost: BigInt(count) * price, charged: 0n },
        rate: scheduleOf({ base: { ...RATE, web_search: Number(price) } }).base,
      },
    );
  const lines = [{ ...(shared as BillLine), cost: 3n * price }, ...searches('one', 1), ...searches('two', 2)];
  expect(compare(lines, [searching('one', 1), searching('two', 2)])).toEqual([]);
  expect(compare(lines, [searching('one', 1), searching('two', 1)])).toEqual([`units ${price}`]);
});

test('a sum of all tiers is of the one tier that its usage states', () => {
  const costs = day(0, A, 1, { serviceTier: null, quantity: null, requests: null }).map((line) => ({
    ...line,
    cost: (line.cost ?? 0n) / 2n,
  }));
  const usage = day(0, A, 1, { serviceTier: 'flex', cost: null });
  expect(compare([...costs, ...usage], [attempt(0, A)])).toEqual([`service_tier ${-costOf(A) / 2n}`]);
});

test('a day boundary is found beside a missing request of another day', () => {
  const lines = [...day(0, A, 1), ...day(2, A, 1), ...day(3, BOTH, 2)];
  const attempts = [attempt(0, A), attempt(0, B), attempt(2, A), attempt(2, B), attempt(3, A)];
  expect(compare(lines, attempts)).toEqual([`missing_there -${nano(B)}`, 'day_boundary 0']);
});

test('usage under another tier, model or credential is a difference of that name', () => {
  const tier = day(0, A, 1, { serviceTier: 'flex' });
  expect(compare([...tier, ...day(0, B, 1)], [attempt(0, A), attempt(0, B)])).toEqual(['service_tier 0']);
  const model = day(0, A, 1, { model: 'gpt-internal' });
  expect(compare([...model, ...day(0, B, 1)], [attempt(0, A), attempt(0, B)])).toEqual(['model_name 0']);
  const credential = day(0, A, 1, { credential: 'BBBBBBBB' });
  expect(compare([...credential, ...day(0, B, 1)], [attempt(0, A), attempt(0, B)])).toEqual(['credential 0']);
  const outside = day(0, A, 1, { credential: 'other' });
  expect(compare([...outside, ...day(0, B, 1)], [attempt(0, B)])).toEqual([`outside_relay ${nano(A)}`]);
});

test('missing requests, failed attempts and unknown endings are distinguished by their number', () => {
  const ending = (name: Ending): Partial<RecordedAttempt> => ({
    ending: name,
    ...(name === 'failed' ? { cost: 0n, charged: 0n } : {}),
  });
  expect(compare(day(0, BOTH, 2), [attempt(0, A)])).toEqual([`missing_here ${nano(B)}`]);
  expect(compare(day(0, A, 1), [attempt(0, A), attempt(0, B)])).toEqual([`missing_there -${nano(B)}`]);
  expect(compare(day(0, BOTH, 2), [attempt(0, A), attempt(0, {}, ending('failed'))])).toEqual([
    `failed_attempt ${nano(B)}`,
  ]);
  const guessed = attempt(0, { input: 2_000, output: 10 }, ending('estimated'));
  expect(compare(day(0, BOTH, 2), [attempt(0, A), guessed])).toEqual([
    `unknown_ending ${costOf(B) - guessed.cost}`,
  ]);
});

test('the reservation of an abandoned call is replaced by what the bill has', () => {
  const abandoned = attempt(
    0,
    {},
    {
      ending: 'abandoned',
      names: ['gpt'],
      upstream: null,
      credential: null,
      serviceTier: null,
      providerRequest: null,
      rate: null,
      cost: 9_000_000n,
    },
  );
  expect(compare(day(0, BOTH, 2), [attempt(0, A), abandoned])).toEqual([
    `unknown_ending ${costOf(B) - 9_000_000n}`,
  ]);
});

test('classes of tokens, counts, prices and rounding of a sum each have their class', () => {
  const cached = { input: 600, cache_read: 400, output: 100 };
  expect(compare([...day(0, cached, 1), ...day(1, A, 1)], [attempt(0, A), attempt(1, A)])).toEqual([
    `token_class ${costOf(cached) - costOf(A)}`,
  ]);
  expect(compare(day(0, { ...A, output: 120 }, 1), [attempt(0, A)])).toEqual([
    `token_count ${nano({ output: 20 })}`,
  ]);
  const dearer = day(0, A, 1).map((line) => ({ ...line, cost: ((line.cost ?? 0n) * 11n) / 10n + 1n }));
  expect(compare(dearer, [attempt(0, A)])).toEqual([`price ${costOf(A) / 10n + 2n}`]);
  const inCents = day(0, { input: 1_234_567 }, 1).map((line) => ({ ...line, cost: 2_470_000_000n }));
  expect(compare(inCents, [attempt(0, { input: 1_234_567 })])).toEqual(['rounding 866000']);
});

test('a difference below the tolerance is marked and stays in all sums', () => {
  const lines = day(0, { ...A, output: 120 }, 1);
  const amount = nano({ output: 20 });
  expect(compare(lines, [attempt(0, A)], { nanousd: BigInt(amount), ppm: 0 })).toEqual([
    `token_count ${amount} within`,
  ]);
  expect(compare(lines, [attempt(0, A)], { nanousd: 0n, ppm: 100_000 })).toEqual([
    `token_count ${amount} within`,
  ]);
  expect(compare(lines, [attempt(0, A)], { nanousd: 1n, ppm: 1 })).toEqual([`token_count ${amount}`]);
});
