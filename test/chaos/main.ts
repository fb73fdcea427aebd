import { parseArgs } from 'node:util';
import { killServer } from './kill-server.ts';

/**
 * `npm run chaos -- kill-server [--n 100] [--streams 50] [--seed 1]`: breaks things on purpose and
 * checks that the promises held. Prints a verdict as JSON and exits 1 on any violation.
 */
const CASES = ['kill-server'];
const SHOWN_VIOLATIONS = 20;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    n: { type: 'string', default: '100' },
    streams: { type: 'string', default: '50' },
    seed: { type: 'string', default: '1' },
  },
});
const [name = ''] = positionals;
if (!CASES.includes(name)) {
  process.stderr.write(`chaos: name a case: ${CASES.join(', ')}\n`);
  process.exit(2);
}
const verdict = await killServer({ kills: Number(values.n), streams: Number(values.streams), seed: Number(values.seed) });
const { violations, ...figures } = verdict;
process.stdout.write(
  `${JSON.stringify({ case: name, ...figures, violations: violations.length, shown: violations.slice(0, SHOWN_VIOLATIONS) }, null, 2)}\n`,
);
process.exitCode = violations.length === 0 ? 0 : 1;
