import { setTimeout as wait } from 'node:timers/promises';
import { type Breakage, type FieldVerdict, type Phase, runPhases } from './field.ts';
import { clusterGround } from './ground.ts';
import { type Random, randomFrom } from './random.ts';

const BETWEEN_MS = 2_000;

type Options = { n: number; streams: number; frozenMs: number };

/**
 * Stops one of three server processes where it stands, at least until the others have declared it
 * dead and recovered it, and lets it go on, `n` times, under `streams` concurrent calls of accounts with
 * quotas. It must neither deliver nor spend anything of what it had, and serve again under a new number.
 */
export const freezing = (random: Random, { n, streams, frozenMs }: Options): Phase => ({
  streams,
  scale: 4 * n,
  async run(field) {
    const frozen: Breakage[] = [];
    for (let round = 0; round < n; round++) {
      await wait(BETWEEN_MS + random.below(1_000));
      const victim = await field.pick();
      process.kill(victim.pid, 'SIGSTOP');
      frozen.push(victim);
      try {
        await wait(frozenMs);
        await field.recovered([victim]);
      } finally {
        process.kill(victim.pid, 'SIGCONT');
      }
    }
    await wait(BETWEEN_MS);
    return frozen;
  },
});

/** `npm run chaos -- freeze-instance`. */
export async function freezeInstance({
  seed,
  ...options
}: Options & { seed: number }): Promise<FieldVerdict> {
  const random = randomFrom(seed);
  await using ground = await clusterGround();
  const [verdict] = await runPhases(ground, { random }, [freezing(random, options)]);
  return verdict as FieldVerdict;
}
