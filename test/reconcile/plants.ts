import type { BillKind, BillLine } from '#db/reconcile/bill/line.ts';
import type { DifferenceClass } from '#db/reconcile/classes.ts';
import type { Rate } from '#db/pricing/parts.ts';
import { type Booked, linesOf, type Parts, type Reply } from '../support/providers/billing-provider.ts';

/** Differences that are planted into a bill with request ids. */

export const STANDARD: Rate = {
  input: 2_500_000_000,
  cache_read: 250_000_000,
  cache_write_5m: 3_125_000_000,
  cache_write_1h: 5_000_000_000,
  output: 10_000_000_000,
  reasoning: 12_000_000_000,
  audio_input: 40_000_000_000,
  audio_output: 80_000_000_000,
  web_search: 10_000_000,
};
/** Parts that another service tier has another price for. */
export const FLEX: Rate = { input: 1_250_000_000, output: 5_000_000_000 };
/** What the price of the model `repriced` becomes. */
export const REPRICED: Rate = { ...STANDARD, output: 15_000_000_000 };
/** Billionths of a dollar for a euro. */
export const EURO = 1_083_700_000n;

export const HOUR_MS = 3_600_000;

export type Plant = {
  name: string;
  /** `chat` is priced, `repriced` has had two prices, `unpriced` has none. */
  model?: 'chat' | 'repriced' | 'unpriced';
  /** How the call ends; null: there is no call. */
  ending?: NonNullable<Reply['ending']> | null;
  /** Parts in addition to input and output. */
  parts?: Parts;
  expected: DifferenceClass;
  /** The lines of the bill for the call. */
  bill: (booked: Booked) => BillLine[];
};

const other = (kind: BillKind, cost: bigint): Plant => ({
  name: kind,
  expected: kind as DifferenceClass,
  bill: (booked) => [
    ...linesOf(booked, STANDARD),
    {
      ...(linesOf(booked, STANDARD)[0] as BillLine),
      place: `${booked.id} ${kind}`,
      kind,
      part: null,
      quantity: null,
      requests: null,
      cost,
    },
  ],
});

const moved = (name: string, parts: Parts, billed: (parts: Parts) => Parts): Plant => ({
  name,
  parts,
  expected: 'token_class',
  bill: (booked) => linesOf(booked, STANDARD, { parts: billed(booked.parts) }),
});

/** So many hours from a moment that it is on another day in UTC, and within the offsets of time zones. */
const otherDay = (at: Date): Date => new Date(at.getTime() + (at.getUTCHours() >= 11 ? 14 : -14) * HOUR_MS);

const times = (line: BillLine, numerator: bigint, denominator: bigint): BillLine => ({
  ...line,
  cost: ((line.cost ?? 0n) * numerator) / denominator,
});

export const PLANTS: readonly Plant[] = [
  { name: 'lost ending', ending: 'cut', expected: 'unknown_ending', bill: (each) => linesOf(each, STANDARD) },
  {
    name: 'doubled call',
    expected: 'duplicate',
    bill: (each) => [...linesOf(each, STANDARD), ...linesOf(each, STANDARD)],
  },
  {
    name: 'wrong price version',
    model: 'repriced',
    expected: 'price',
    bill: (each) => linesOf(each, STANDARD),
  },
  {
    name: 'price of no version',
    expected: 'price',
    bill: (each) => linesOf(each, STANDARD).map((line) => times(line, 117n, 100n)),
  },
  moved('cache read as input', { cache_read: 700 }, ({ cache_read = 0, input = 0, ...rest }) => ({
    ...rest,
    input: input + cache_read,
  })),
  moved('cache write of 5 minutes as one of an hour', { cache_write_5m: 600 }, (parts) => {
    const { cache_write_5m = 0, ...rest } = parts;
    return { ...rest, cache_write_1h: cache_write_5m };
  }),
  moved('cache write of an hour as input', { cache_write_1h: 500 }, (parts) => {
    const { cache_write_1h = 0, input = 0, ...rest } = parts;
    return { ...rest, input: input + cache_write_1h };
  }),
  moved('reasoning as output', { reasoning: 400 }, ({ reasoning = 0, output = 0, ...rest }) => ({
    ...rest,
    output: output + reasoning,
  })),
  moved('audio as text', { audio_input: 300 }, ({ audio_input = 0, input = 0, ...rest }) => ({
    ...rest,
    input: input + audio_input,
  })),
  {
    name: 'web searches',
    parts: { web_search: 2 },
    expected: 'units',
    bill: (each) => linesOf(each, STANDARD, { parts: { ...each.parts, web_search: 3 } }),
  },
  {
    name: 'token count',
    expected: 'token_count',
    bill: (each) =>
      linesOf(each, STANDARD, { parts: { ...each.parts, output: (each.parts.output ?? 0) + 17 } }),
  },
  {
    name: 'day boundary',
    expected: 'day_boundary',
    bill: (each) => linesOf(each, STANDARD, { at: otherDay(each.at) }),
  },
  {
    name: 'late usage',
    expected: 'late_usage',
    bill: (each) => linesOf(each, STANDARD, { at: new Date(each.at.getTime() + 72 * HOUR_MS) }),
  },
  {
    name: 'credential used outside the relay',
    ending: null,
    expected: 'outside_relay',
    bill: (each) => linesOf(each, STANDARD, { credential: 'elsewhere' }),
  },
  {
    name: 'request that the log lacks',
    ending: null,
    expected: 'missing_here',
    bill: (each) => linesOf(each, STANDARD),
  },
  { name: 'request that the bill lacks', expected: 'missing_there', bill: () => [] },
  {
    name: 'failed attempt billed',
    ending: 'error',
    expected: 'failed_attempt',
    bill: (each) => linesOf(each, STANDARD),
  },
  other('discount', -41_000_003n),
  other('refund', -7_000_001n),
  other('credit', -500_000_000n),
  other('fee', 300_000_007n),
  other('tax', 19_000_011n),
  {
    name: 'unknown model name',
    expected: 'model_name',
    bill: (each) => linesOf(each, STANDARD, { model: 'chat-internal-7' }),
  },
  {
    name: 'currency',
    expected: 'currency',
    bill: (each) => linesOf(each, STANDARD, { currency: 'EUR' }),
  },
  {
    name: 'rounding of each line',
    parts: { input: 100_001 },
    expected: 'rounding',
    bill: (each) =>
      linesOf(each, STANDARD).map((line) => ({
        ...line,
        cost: ((line.cost ?? 0n) / 10_000n + 1n) * 10_000n,
      })),
  },
  {
    name: 'service tier',
    expected: 'service_tier',
    bill: (each) => linesOf(each, { ...STANDARD, ...FLEX }, { serviceTier: 'flex' }),
  },
  {
    name: 'no request id',
    expected: 'request_id',
    bill: (each) => linesOf(each, STANDARD, { requestId: null }),
  },
  { name: 'no price set', model: 'unpriced', expected: 'no_price', bill: (each) => linesOf(each, STANDARD) },
];
