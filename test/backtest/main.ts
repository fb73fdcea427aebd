import { spawn } from 'node:child_process';
import path from 'node:path';
import { parseArgs } from 'node:util';

/**
 * `npm run backtest -- [--seeds 1,2,3]`: the days of this folder by these seeds, by default ten. Each is of
 * two minutes at least, which it waits for, and recorded twice: five minutes a seed.
 */
const TEN = '1,2,3,4,5,6,7,8,9,10';
const { values } = parseArgs({ options: { seeds: { type: 'string', default: TEN } } });
const root = path.join(import.meta.dirname, '../..');
const vitest = spawn(
  process.execPath,
  [
    path.join(root, 'node_modules/vitest/vitest.mjs'),
    'run',
    '--config',
    'test/vitest.config.ts',
    'test/backtest/replayed-day.test.ts',
  ],
  { cwd: root, env: { ...process.env, BACKTEST_SEEDS: values.seeds }, stdio: 'inherit' },
);
vitest.once('exit', (code) => {
  process.exitCode = code ?? 1;
});
