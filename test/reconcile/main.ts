import { spawn } from 'node:child_process';
import path from 'node:path';
import { parseArgs } from 'node:util';

/** `npm run reconcile -- [--seeds 20]`: the tests of this folder with so many seeds. */
const { values } = parseArgs({ options: { seeds: { type: 'string', default: '20' } } });
const root = path.join(import.meta.dirname, '../..');
const vitest = spawn(
  process.execPath,
  [
    path.join(root, 'node_modules/vitest/vitest.mjs'),
    'run',
    '--config',
    'test/vitest.config.ts',
    'test/reconcile',
  ],
  { cwd: root, env: { ...process.env, RECONCILE_SEEDS: values.seeds }, stdio: 'inherit' },
);
vitest.once('exit', (code) => {
  process.exitCode = code ?? 1;
});
