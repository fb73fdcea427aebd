import type { PlanTerms } from '#db/events/events.ts';
import type { Quota } from '#db/limits/limits.ts';
import { type Random, randomFrom } from '../chaos/random.ts';

/** A scripted day of calls, and terms that some of them exceed; both are decided by a seed. */

/** Scripts of the models that are called: their replies are as long as the call permits, up to a length. */
export const MODELS = { short: 8, middle: 40, long: 150 } as const;
export type ModelName = keyof typeof MODELS;

/** A call: by which tenant, for which end user, and its body. */
export type DayCall = { tenant: number; body: Record<string, unknown> };

const NAMES = Object.keys(MODELS) as ModelName[];
const USERS = 4;
export const TENANTS = 2;

/** The calls of a day, in their order. */
export function callsOf(seed: number, count: number): DayCall[] {
  const random = randomFrom(seed);
  return Array.from({ length: count }, () => {
    const limits = [
      {},
      { max_tokens: 1 + random.below(60) },
      { max_completion_tokens: 20 + random.below(200) },
    ];
    return {
      tenant: random.below(TENANTS),
      body: {
        model: pick(random, NAMES),
        user: `user-${random.below(USERS)}`,
        messages: [{ role: 'user', content: 'word '.repeat(1 + random.below(120)) }],
        stream: random.below(3) === 0,
        ...pick(random, limits),
      },
    };
  });
}

/** Terms with limits of some kinds, so tight that a day of so many calls exceeds them. */
export function termsOf(seed: number, count: number): PlanTerms {
  const random = randomFrom(seed + 1_000);
  const around = (units: number): number => Math.round((units * (50 + random.below(100))) / 100);
  const enforcement = (): Quota['enforcement'] => pick(random, ['soft', 'hard', 'observe']);
  const softly = (): Quota['enforcement'] => pick(random, ['soft', 'observe']);
  const calls = count / TENANTS;
  const quotas: Quota[] = [
    { meter: 'requests', window: 'day', limit: around(calls * 0.8), enforcement: 'soft' },
    { meter: 'tokens', window: 'day', limit: around(calls * 130), enforcement: enforcement() },
    { meter: 'cost_nanousd', window: 'month', limit: around(calls * 350), enforcement: enforcement() },
    { meter: 'tokens', window: 'hour', per: 'end_user', limit: around(calls * 40), enforcement: softly() },
    { meter: 'requests', window: 'lifetime', per: 'end_user', limit: around(calls / 4), enforcement: 'soft' },
  ];
  const chosen = quotas.filter(() => random.below(2) === 0);
  return {
    quotas: chosen.length === 0 ? quotas.slice(1, 2) : chosen,
    ...(random.below(3) === 0 ? { reply_tokens_max: 60 + random.below(100) } : {}),
    ...(random.below(4) === 0 ? { models: ['short', 'long'] } : {}),
  };
}

const pick = <T>(random: Random, from: readonly T[]): T => from[random.below(from.length)] as T;
