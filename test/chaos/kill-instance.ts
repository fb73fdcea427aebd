import { setTimeout as wait } from 'node:timers/promises';
import { type Breakage, type FieldVerdict, type Phase, runPhases } from './field.ts';
import { clusterGround } from './ground.ts';
import { type Random, randomFrom } from './random.ts';

type Options = { n: number; streams: number };

/**
 * Kills one of three server processes with SIGKILL, again and again at random moments, under
 * `streams` concurrent calls of accounts with quotas. The next one dies as soon as that one is replaced,
 * and long before it is recovered. P1 to P4, and every lease back within thirty seconds.
 */
export const killing = (random: Random, { n, streams }: Options): Phase => ({
  streams,
  scale: n,
  async run(field) {
    const killed: Breakage[] = [];
    while (killed.length < n) {
      await wait(200 + random.below(2_500));
      const victim = await field.pick();
      process.kill(victim.pid, 'SIGKILL');
      killed.push(victim);
    }
    await wait(1_000);
    return killed;
  },
});

/** `npm run chaos -- kill-instance`. */
export async function killInstance({ seed, ...options }: Options & { seed: number }): Promise<FieldVerdict> {
  const random = randomFrom(seed);
  await using ground = await clusterGround();
  const [verdict] = await runPhases(ground, { random }, [killing(random, options)]);
  return verdict as FieldVerdict;
}
