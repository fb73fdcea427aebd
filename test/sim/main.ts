import { parseArgs } from 'node:util';
import { type Outcomes, simulate } from './world.ts';

/**
 * `npm run sim -- [--n 100000] [--seed 1]`: runs schedules of instances, crashes and clock jumps over
 * the limits' core, from a seed on. Prints figures as JSON, and what went wrong with its seed; exits 1
 * on any violation. `--n 1 --seed S` repeats one.
 */
const { values } = parseArgs({
  options: { n: { type: 'string', default: '100000' }, seed: { type: 'string', default: '1' } },
});
const [count, first] = [Number(values.n), Number(values.seed)];
const FAILED_SHOWN = 10;

const figures: Record<string, number> = {};
const failed: { seed: number; violations: string[] }[] = [];
const startedMs = performance.now();
for (let seed = first; seed < first + count; seed++) {
  const { violations, ...counts }: Outcomes = simulate(seed);
  for (const [name, value] of Object.entries(counts)) figures[name] = (figures[name] ?? 0) + value;
  if (violations.length > 0) failed.push({ seed, violations: violations.slice(0, 3) });
}
const seconds = Math.round((performance.now() - startedMs) / 100) / 10;
const report = {
  schedules: count,
  seconds,
  ...figures,
  failed: failed.length,
  shown: failed.slice(0, FAILED_SHOWN),
};
process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
process.exitCode = failed.length === 0 ? 0 : 1;
