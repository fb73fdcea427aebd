import { spawn } from 'node:child_process';
import path from 'node:path';
import { parseArgs } from 'node:util';

/**
 * `npm run limits -- [--seeds 20] [FILE…]`: the tests of this folder in their long form, with so many
 * seeds, larger quotas and floods, and times that are measured. For a machine that does nothing else.
 */
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { seeds: { type: 'string', default: '20' } },
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
  { cwd: root, env: { ...process.env, LIMITS_SEEDS: values.seeds }, stdio: 'inherit' },
);
vitest.once('exit', (code) => {
  process.exitCode = code ?? 1;
});
