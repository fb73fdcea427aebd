import type { PricedPart, Rate } from '#db/pricing/parts.ts';
import type { BillKind } from '#db/reconcile/bill/line.ts';
import type { DifferenceClass } from '#db/reconcile/classes.ts';
import type { BillingApiName } from '#server/billing-api/reports.ts';
import { costOf, type LedgerEntry } from '../support/billing/ledger.ts';
import { type Booked, costOfPart, type Parts, type Reply } from '../support/providers/billing-provider.ts';
import { FLEX, HOUR_MS, STANDARD } from './plants.ts';

/** Differences that are planted behind a provider's billing APIs, each under a model of its own. */

export type ApiPlant = {
  /** Of the model that is called: its price is by its first word. */
  model: string;
  /** How the call ends; null: there is no call. */
  ending?: NonNullable<Reply['ending']> | null;
  /** Parts in addition to input and output. */
  parts?: Parts;
  /** Its class by what an API states; absent: the API can't state it. */
  expected: Partial<Record<BillingApiName, DifferenceClass>>;
  /** The model that the finding names, where it isn't the one that was called. */
  billedModel?: string;
  /** What the books have for the call. */
  book: (booked: Booked, api: BillingApiName) => LedgerEntry[];
};

/** What the books have for a request at a rate. */
export function entryOf(
  booked: Booked,
  rate: Rate = STANDARD,
  change: Partial<Pick<LedgerEntry, 'at' | 'model' | 'credential' | 'serviceTier'>> & { parts?: Parts } = {},
): LedgerEntry {
  const { parts = booked.parts, ...fields } = change;
  return {
    requestId: booked.id,
    at: booked.at,
    model: booked.model,
    credential: booked.credential,
    serviceTier: booked.tier,
    ...fields,
    parts: Object.fromEntries(
      Object.entries(parts).map(([name, quantity]) => [
        name,
        { quantity: BigInt(quantity), cost: costOfPart(name as PricedPart, quantity, rate) },
      ]),
    ),
  };
}

const everywhere = (
  name: DifferenceClass,
  but: Partial<Record<BillingApiName, DifferenceClass>> = {},
): ApiPlant['expected'] => ({ openai: name, anthropic: name, openrouter: name, ...but });

const scaled = (entry: LedgerEntry, scale: (cost: bigint) => bigint): LedgerEntry => ({
  ...entry,
  parts: Object.fromEntries(
    Object.entries(entry.parts).map(([part, { quantity, cost }]) => [part, { quantity, cost: scale(cost) }]),
  ),
});

/** An amount rounded up to a thousandth of a cent. */
const rounded = (cost: bigint): bigint => (cost / 10_000n + 1n) * 10_000n;

function roundedWhole(entry: LedgerEntry): LedgerEntry {
  const { input = { quantity: 0n, cost: 0n }, ...others } = entry.parts;
  const cost = costOf(entry);
  return { ...entry, parts: { ...others, input: { ...input, cost: input.cost + rounded(cost) - cost } } };
}

/** A time on the next day of UTC. */
const nextDay = (at: Date): Date => new Date(at.getTime() + 24 * HOUR_MS);

export const API_PLANTS: readonly ApiPlant[] = [
  {
    model: 'chat-lost-ending',
    ending: 'cut',
    expected: everywhere('unknown_ending'),
    book: (each) => [entryOf(each)],
  },
  {
    // Without request ids nothing says that both are one request; Anthropic states no requests either.
    model: 'chat-doubled',
    expected: everywhere('missing_here', { anthropic: 'token_count' }),
    book: (each) => [entryOf(each), entryOf(each)],
  },
  {
    model: 'repriced-version',
    expected: everywhere('price'),
    book: (each) => [entryOf(each)],
  },
  {
    model: 'chat-price',
    expected: everywhere('price'),
    book: (each) => [scaled(entryOf(each), (cost) => (cost * 117n) / 100n)],
  },
  {
    model: 'chat-cache-read',
    parts: { cache_read: 700 },
    expected: everywhere('token_class'),
    book: (each) => {
      const { cache_read = 0, input = 0, ...rest } = each.parts;
      return [entryOf(each, STANDARD, { parts: { ...rest, input: input + cache_read } })];
    },
  },
  {
    model: 'chat-cache-write',
    parts: { cache_write_5m: 600 },
    expected: { anthropic: 'token_class' },
    book: (each) => {
      const { cache_write_5m = 0, ...rest } = each.parts;
      return [entryOf(each, STANDARD, { parts: { ...rest, cache_write_1h: cache_write_5m } })];
    },
  },
  {
    model: 'chat-reasoning',
    parts: { reasoning: 400 },
    expected: everywhere('token_class'),
    book: (each) => {
      const { reasoning = 0, output = 0, ...rest } = each.parts;
      return [entryOf(each, STANDARD, { parts: { ...rest, output: output + reasoning } })];
    },
  },
  {
    model: 'chat-audio',
    parts: { audio_input: 300 },
    expected: { openai: 'token_class' },
    book: (each) => {
      const { audio_input = 0, input = 0, ...rest } = each.parts;
      return [entryOf(each, STANDARD, { parts: { ...rest, input: input + audio_input } })];
    },
  },
  {
    model: 'chat-searches',
    parts: { web_search: 2 },
    expected: { anthropic: 'units' },
    book: (each) => [entryOf(each, STANDARD, { parts: { ...each.parts, web_search: 3 } })],
  },
  {
    model: 'chat-tokens',
    expected: everywhere('token_count'),
    book: (each) => [
      entryOf(each, STANDARD, { parts: { ...each.parts, output: (each.parts.output ?? 0) + 17 } }),
    ],
  },
  {
    model: 'chat-next-day',
    expected: everywhere('day_boundary'),
    book: (each) => [entryOf(each, STANDARD, { at: nextDay(each.at) })],
  },
  {
    model: 'chat-late',
    expected: everywhere('late_usage'),
    book: (each) => [entryOf(each, STANDARD, { at: new Date(each.at.getTime() + 72 * HOUR_MS) })],
  },
  {
    // Only OpenAI's costs state the key.
    model: 'chat-outside',
    ending: null,
    expected: everywhere('missing_here', { openai: 'outside_relay' }),
    book: (each) => [entryOf(each, STANDARD, { credential: 'elsewhere' })],
  },
  {
    model: 'chat-not-here',
    ending: null,
    expected: everywhere('missing_here'),
    book: (each) => [entryOf(each)],
  },
  {
    // Anthropic states no requests, so that the attempt after it can't be told apart.
    model: 'chat-failed',
    ending: 'error',
    expected: { openai: 'failed_attempt', openrouter: 'failed_attempt' },
    book: (each) => [entryOf(each)],
  },
  { model: 'chat-not-there', expected: everywhere('missing_there'), book: () => [] },
  {
    model: 'chat-model-name',
    billedModel: 'chat-internal-7',
    expected: everywhere('model_name'),
    book: (each) => [entryOf(each, STANDARD, { model: 'chat-internal-7' })],
  },
  {
    model: 'chat-rounding',
    parts: { input: 100_001 },
    expected: everywhere('rounding'),
    // OpenRouter has one amount for all parts.
    book: (each, api) => [
      api === 'openrouter' ? roundedWhole(entryOf(each)) : scaled(entryOf(each), rounded),
    ],
  },
  {
    // OpenRouter's activity states no tiers.
    model: 'chat-flex',
    expected: everywhere('service_tier', { openrouter: 'price' }),
    book: (each) => [entryOf(each, { ...STANDARD, ...FLEX }, { serviceTier: 'flex' })],
  },
  {
    model: 'chat-batch',
    expected: everywhere('service_tier', { openrouter: 'price' }),
    book: (each) => [scaled(entryOf(each, STANDARD, { serviceTier: 'batch' }), (cost) => (cost + 1n) / 2n)],
  },
  { model: 'unpriced-usage', expected: everywhere('no_price'), book: (each) => [entryOf(each)] },
];

/** Positions that are no usage; OpenRouter's activity has none. */
export const ADJUSTMENTS: readonly { kind: Exclude<BillKind, 'usage'>; cost: bigint }[] = [
  { kind: 'discount', cost: -41_000_003n },
  { kind: 'refund', cost: -7_000_001n },
  { kind: 'credit', cost: -500_000_000n },
  { kind: 'fee', cost: 300_000_007n },
  { kind: 'tax', cost: 19_000_011n },
];
