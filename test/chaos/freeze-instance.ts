import { setTimeout as wait } from 'node:timers/promises';
import { type Breakage, type FieldVerdict, openField } from './field.ts';
import { randomFrom } from './random.ts';

const BETWEEN_MS = 2_000;

/**
 * Stops one of three server processes where it stands, long enough for the others to declare it
 * dead, and lets it go on, `n` times, under `streams` concurrent calls of accounts with quotas. It
 * must neither deliver nor spend anything of what it had, and serve again under a new number.
 */
export async function freezeInstance(options: {
  n: number;
  streams: number;
  seed: number;
  frozenMs: number;
}): Promise<FieldVerdict> {
  const { n, streams, seed, frozenMs } = options;
  const random = randomFrom(seed);
  await using field = await openField(random, 4 * n);
  field.load(streams);
  const frozen: Breakage[] = [];
  for (let round = 0; round < n; round++) {
    await wait(BETWEEN_MS + random.below(1_000));
    const victim = await field.pick();
    process.kill(victim.pid, 'SIGSTOP');
    frozen.push(victim);
    await wait(frozenMs);
    process.kill(victim.pid, 'SIGCONT');
  }
  await wait(BETWEEN_MS);
  return await field.judge(frozen);
}
