import { spawn } from 'node:child_process';
import path from 'node:path';
import { parseArgs } from 'node:util';

/**
 * `npm run backtest -- [--seeds 10]`: the days of this folder by so many seeds. Each is of two minutes at
 * least, which it waits for.
 */
const { values } = parseArgs({ options: { seeds: { type: 'string', default: '10' } } });
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
