import type { PlanTerms } from '#db/events/events.ts';
import type { Quota, RateField } from '#db/limits/limits.ts';
import type { PriceTerms } from '#db/pricing/parts.ts';
import { type Random, randomFrom } from '../chaos/random.ts';

/** A scripted day of calls, and changes that some of them exceed; both are decided by a seed. Pure. */

/**
 * Scripts of the models: their replies are as long as the call permits, up to a length. `vast` and `medium`
 * reply as the models do that they replace, and their names have as many bytes.
 */
export const MODELS = { short: 8, middle: 40, long: 150, medium: 40, vast: 150 } as const;
export type ModelName = keyof typeof MODELS;
const CALLED = ['short', 'middle', 'long'] as const satisfies readonly ModelName[];

/** The plan of every account of a day. */
export const PLAN = 'day';
/** Accounts that call. The first ones have a parent, which doesn't. */
export const TENANTS = 3;
export const CHILDREN = 2;

const USERS = 4;
const SESSIONS = 6;
const TAGS = ['blue', 'green', 'red'];
/** Calls that run at the same time as others. */
const HELD_MAX = 3;

/** A call: by which tenant, in whose name, and its body. `seed` is its number. */
export type DayCall = {
  tenant: number;
  headers: Record<string, string>;
  body: Record<string, unknown> & { model: ModelName; seed: number };
};

/** A call begins and, unless it is held, ends; or one that is held ends. */
export type DayStep = { kind: 'call' | 'hold' | 'release'; call: number };

/** The calls of a day, and the order in which they begin and end. */
export type Day = { calls: DayCall[]; steps: DayStep[] };

export function dayOf(seed: number, count: number): Day {
  const random = randomFrom(seed);
  const calls = Array.from({ length: count }, (_, number) => callOf(random, number));
  const steps: DayStep[] = [];
  const held: number[] = [];
  for (let call = 0; call < count; call++) {
    if (held.length > 0 && random.below(3) === 0) steps.push(released(held));
    const isHeld = held.length < HELD_MAX && random.below(5) === 0;
    steps.push({ kind: isHeld ? 'hold' : 'call', call });
    if (isHeld) held.push(call);
  }
  while (held.length > 0) steps.push(released(held));
  return { calls, steps };
}

const released = (held: number[]): DayStep => ({ kind: 'release', call: held.shift() as number });

function callOf(random: Random, number: number): DayCall {
  const limits = [
    {},
    { max_tokens: 1 + random.below(60) },
    { max_completion_tokens: 20 + random.below(200) },
  ];
  return {
    tenant: random.below(TENANTS),
    headers: {
      ...(random.below(2) === 0 ? { 'x-daybook-session': `session-${random.below(SESSIONS)}` } : {}),
      ...(random.below(2) === 0 ? { 'x-daybook-tags': [pick(random, TAGS), 'all'].join(', ') } : {}),
    },
    body: {
      model: pick(random, CALLED),
      seed: number,
      user: `user-${random.below(USERS)}`,
      messages: [{ role: 'user', content: 'word '.repeat(1 + random.below(120)) }],
      stream: random.below(3) === 0,
      ...pick(random, limits),
    },
  };
}

/** What a seed changes: terms always, and prices and models for some seeds. */
export type DayChanges = {
  terms: PlanTerms;
  prices: { pattern: ModelName; plan: string | null; terms: PriceTerms }[];
  models: ReadonlyMap<ModelName, ModelName>;
};

/** Changes with limits of some kinds, so tight that a day of so many calls exceeds them. */
export function changesOf(seed: number, count: number): DayChanges {
  const random = randomFrom(seed + 1_000);
  const terms = { ...quotaTerms(random, count), ...ratesOf(random, count) };
  const hasPrices = random.below(2) === 0;
  const hasModels = random.below(3) === 0;
  return {
    terms: { ...terms, ...(random.below(3) === 0 ? { markup: 1 + random.below(5_000) } : {}) },
    prices: hasPrices ? pricesOf(random) : [],
    models: new Map(
      hasModels
        ? [
            ['long', 'vast'],
            ['middle', 'medium'],
          ]
        : [],
    ),
  };
}

function quotaTerms(random: Random, count: number): PlanTerms {
  const around = (units: number): number => Math.round((units * (50 + random.below(100))) / 100);
  const enforcement = (): Quota['enforcement'] => pick(random, ['soft', 'hard', 'observe']);
  const softly = (): Quota['enforcement'] => pick(random, ['soft', 'observe']);
  const calls = count / TENANTS;
  // The parent counts the calls of its children.
  const most = calls * 1.4;
  const quotas: Quota[] = [
    { meter: 'requests', window: 'day', limit: around(most * 0.8), enforcement: 'soft' },
    { meter: 'tokens', window: 'day', limit: around(most * 130), enforcement: enforcement() },
    { meter: 'cost_nanousd', window: 'month', limit: around(most * 350), enforcement: enforcement() },
    { meter: 'tokens', window: 'hour', per: 'end_user', limit: around(calls * 40), enforcement: softly() },
    { meter: 'requests', window: 'lifetime', per: 'end_user', limit: around(calls / 4), enforcement: 'soft' },
    { meter: 'tokens', window: 'lifetime', per: 'session', limit: around(calls * 20), enforcement: softly() },
    { meter: 'requests', window: 'week', per: 'tag', limit: around(calls / 4), enforcement: softly() },
  ];
  const chosen = quotas.filter(() => random.below(2) === 0);
  return {
    quotas: chosen.length === 0 ? quotas.slice(1, 2) : chosen,
    ...(random.below(3) === 0 ? { reply_tokens_max: 60 + random.below(100) } : {}),
    ...(random.below(4) === 0 ? { models: ['short', 'long', 'vast'] } : {}),
  };
}

/** Rates; every other one is observed. */
function ratesOf(random: Random, count: number): PlanTerms {
  const calls = count / TENANTS;
  const rates: Record<RateField, number> = {
    requests_per_minute: Math.round(calls * (0.6 + random.below(60) / 100)),
    tokens_per_minute: Math.round(calls * (60 + random.below(100))),
    concurrent_requests: 1 + random.below(HELD_MAX),
  };
  const chosen = (Object.keys(rates) as RateField[]).filter(() => random.below(2) === 0);
  return {
    ...Object.fromEntries(chosen.map((field) => [field, rates[field]])),
    observe: chosen.filter(() => random.below(2) === 0),
  };
}

/** Providers' prices with a rule, and what the plan charges for one of the models. */
function pricesOf(random: Random): DayChanges['prices'] {
  const base = { input: 200_000 + random.below(2_000_000), output: 1_000_000 + random.below(9_000_000) };
  const dearer = { when: { input_tokens_above: 80 }, rate: { input: base.input * 2 } };
  return [
    ...Object.keys(MODELS).map((model) => ({
      pattern: model as ModelName,
      plan: null,
      terms: { base: { ...base, per_request: random.below(100) }, rules: [dearer] },
    })),
    { pattern: pick(random, CALLED), plan: PLAN, terms: { base: { input: 3_333_333, output: 7_777_777 } } },
  ];
}

const pick = <T>(random: Random, from: readonly T[]): T => from[random.below(from.length)] as T;
