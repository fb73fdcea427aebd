import { setTimeout as wait } from 'node:timers/promises';
import { type Breakage, type FieldVerdict, openField } from './field.ts';
import { randomFrom } from './random.ts';

/**
 * Kills one of three server processes with SIGKILL, again and again at random moments, under
 * `streams` concurrent calls of accounts with quotas. The next one dies as soon as that one is replaced,
 * and long before it is recovered. P1 to P4, and every lease back within thirty seconds.
 */
export async function killInstance({
  n,
  streams,
  seed,
}: {
  n: number;
  streams: number;
  seed: number;
}): Promise<FieldVerdict> {
  const random = randomFrom(seed);
  await using field = await openField(random, n);
  field.load(streams);
  const killed: Breakage[] = [];
  while (killed.length < n) {
    await wait(200 + random.below(2_500));
    const victim = await field.pick();
    process.kill(victim.pid, 'SIGKILL');
    killed.push(victim);
  }
  await wait(1_000);
  return await field.judge(killed);
}
