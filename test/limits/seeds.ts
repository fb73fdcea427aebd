import { env } from 'node:process';

/**
 * How often a test that a seed decides is run: a few times in the suite, as often as wanted by `npm run
 * limits`.
 */
export const SEEDS: number[] = Array.from(
  { length: Number(env['LIMITS_SEEDS'] ?? 2) },
  (_, index) => index + 1,
);

/** Whether this is the long form, in which times are measured and floods are large. */
export const IS_LONG = env['LIMITS_SEEDS'] !== undefined;

/** The same for tests that take seconds each. */
export const FEW_SEEDS = IS_LONG ? SEEDS : SEEDS.slice(0, 1);
