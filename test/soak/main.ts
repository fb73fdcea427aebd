import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { clusterGround } from '../chaos/ground.ts';
import { show } from './judge.ts';
import { soak } from './soak.ts';

/**
 * `npm run soak -- [--minutes 30] [--warmup 5] [--callers 24] [--seed 1] [--out FILE]`: mixed calls with
 * faults, and slopes with 95 % confidence intervals of memory, descriptors, connections, stalls and tables.
 * Exits 1 on any violation.
 */
const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '30' },
    warmup: { type: 'string' },
    callers: { type: 'string', default: '24' },
    seed: { type: 'string', default: '1' },
    out: { type: 'string' },
  },
});
const minutes = Number(values.minutes);
const warmup = Number(values.warmup ?? Math.min(5, minutes / 5));
if (!(minutes > 0) || !(warmup >= 0) || warmup >= minutes) {
  process.stderr.write('soak: --minutes must be a number above --warmup\n');
  process.exit(2);
}
const SHOWN_EVERY_MS = 60_000;
const SHOWN_VIOLATIONS = 20;

let shownMs = 0;
await using ground = await clusterGround();
const verdict = await soak(ground, {
  secs: minutes * 60,
  warmupSecs: warmup * 60,
  sampleMs: 5_000,
  callers: Number(values.callers),
  pauseMs: 500,
  keyChangeMs: 10_000,
  silenceMs: 4_000,
  workerRestartMs: 120_000,
  seed: Number(values.seed),
  onSample({ at, calls, rssMb, descriptors, sessions }) {
    if (at - shownMs < SHOWN_EVERY_MS) return;
    shownMs = at;
    process.stderr.write(
      `${new Date(at).toISOString()} ${calls} calls, ${rssMb.toFixed(0)} MB, ` +
        `${descriptors} descriptors, ${sessions} database sessions\n`,
    );
  },
});
const { judged, violations, ...figures } = verdict;
const rows = judged.map(({ name, unit, level, max, slope, low, high, grows }) => ({
  name,
  level: show(level),
  max: show(max),
  slope: show(slope),
  '95 % low': show(low),
  '95 % high': show(high),
  unit,
  verdict: grows ? 'GROWS' : 'ok',
}));
console.table(rows);
const shown = violations.slice(0, SHOWN_VIOLATIONS);
process.stdout.write(`${JSON.stringify({ ...figures, violations: violations.length, shown }, null, 2)}\n`);
if (values.out !== undefined) await writeFile(values.out, `${JSON.stringify(verdict, null, 2)}\n`);
process.exitCode = violations.length === 0 ? 0 : 1;
