import { parseArgs } from 'node:util';
import { randomFrom } from '../chaos/random.ts';
import { run as api } from './api.ts';
import { run as faults } from './faults.ts';
import { run as frames } from './frames.ts';
import { run as http } from './http.ts';
import { run as json } from './json.ts';
import { run as properties } from './properties.ts';
import { run as sql } from './sql.ts';
import { run as sse } from './sse.ts';
import { run as upstream } from './upstream.ts';

/**
 * `npm run fuzz -- TARGET [--seed 1] [--minutes 1]`: random input within the bounds of a protocol. Prints a
 * report as JSON and exits 1 on any violation.
 */
const TARGETS: Record<
  string,
  (random: ReturnType<typeof randomFrom>, budget: { ms: number }) => Promise<{ violations: string[] }>
> = { api, faults, frames, http, json, properties, sql, sse, upstream };

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { seed: { type: 'string', default: '1' }, minutes: { type: 'string', default: '1' } },
});
const [name = ''] = positionals;
const run = TARGETS[name];
if (!run) {
  process.stderr.write(`fuzz: name a target: ${Object.keys(TARGETS).join(', ')}\n`);
  process.exit(2);
}
const seed = Number(values.seed);
const minutes = Number(values.minutes);
const report = await run(randomFrom(seed), { ms: minutes * 60_000 });
process.stdout.write(`${JSON.stringify({ target: name, seed, minutes, ...report }, null, 2)}\n`);
process.exitCode = report.violations.length === 0 ? 0 : 1;
