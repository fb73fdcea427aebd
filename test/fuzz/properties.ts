import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';

const ROOT = path.join(import.meta.dirname, '../..');
const FACTOR = 20;
const TEST_MAX_MS = 600_000;

/** The properties of the unit tests, each tried with twenty times as many inputs as in the suite. */
export async function run(): Promise<{ violations: string[] }> {
  const vitest = spawn(
    process.execPath,
    [
      path.join(ROOT, 'node_modules/vitest/vitest.mjs'),
      ...['run', '--config', 'test/vitest.config.ts', '--project', 'unit'],
      ...['--testTimeout', String(TEST_MAX_MS)],
    ],
    {
      cwd: ROOT,
      env: { ...process.env, PROPERTY_RUNS_FACTOR: String(FACTOR) },
      // The report of the target is what this program prints.
      stdio: ['ignore', process.stderr, process.stderr],
    },
  );
  const [code] = (await once(vitest, 'exit')) as [number | null];
  return { violations: code === 0 ? [] : ['a property was violated: see the report of vitest'] };
}
