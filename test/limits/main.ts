import { spawn } from 'node:child_process';
import path from 'node:path';
import { parseArgs } from 'node:util';

/**
 * `npm run limits -- [--seeds 20] [--users 100000] [FILE…]`: the tests of this folder in their long form,
 * with so many seeds and end users, larger quotas and floods, and times that are measured. For a machine that
 * does nothing else.
 */
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seeds: { type: 'string', default: '20' },
    users: { type: 'string', default: '100000' },
  },
});
const root = path.join(import.meta.dirname, '../..');
const files = positionals.length > 0 ? positionals : ['test/limits'];
const vitest = spawn(
  process.execPath,
  [
    path.join(root, 'node_modules/vitest/vitest.mjs'),
    'run',
    '--config',
    'test/vitest.config.ts',
    '--testTimeout',
    '300000',
    '--no-file-parallelism',
    ...files,
  ],
  {
    cwd: root,
    env: { ...process.env, LIMITS_SEEDS: values.seeds, LIMITS_USERS: values.users },
    stdio: 'inherit',
  },
);
vitest.once('exit', (code) => {
  process.exitCode = code ?? 1;
});
