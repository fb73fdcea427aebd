import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { moduleOf } from '../support/postgres/majors.ts';

/**
 * `npm run test:postgres -- [--majors 15,16,17,18] [PATH…]`: the tests of the database, or those of the given
 * paths, in each supported version of PostgreSQL, one after the other. Exits 1 if one of them fails.
 */
const PACKAGED = '18';
const ROOT = path.join(import.meta.dirname, '../..');

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { majors: { type: 'string', default: '15,16,17,18' } },
});
const paths = positionals.length > 0 ? positionals : ['test/db'];

function runIn(major: string): boolean {
  const hook = pathToFileURL(path.join(import.meta.dirname, 'use-major.ts')).href;
  const own = { NODE_OPTIONS: `--import=${hook}`, TEST_POSTGRES: moduleOf(Number(major)) };
  const vitest = ['run', '--config', 'test/vitest.config.ts', '--project', 'store', ...paths];
  process.stdout.write(`\nPostgreSQL ${major}\n`);
  const { status } = spawnSync(path.join(ROOT, 'node_modules/.bin/vitest'), vitest, {
    cwd: ROOT,
    stdio: 'inherit',
    env: { ...process.env, ...(major === PACKAGED ? {} : own) },
  });
  return status === 0;
}

const failed = values.majors.split(',').filter((major) => !runIn(major));
process.stdout.write(
  failed.length === 0 ? '\nall versions passed\n' : `\nfailed in PostgreSQL ${failed.join(', ')}\n`,
);
process.exitCode = failed.length === 0 ? 0 : 1;
