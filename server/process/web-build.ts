import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { PAGE_BUILD_MS } from '#server/process/bounds.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';

const ROOT = path.join(import.meta.dirname, '../..');
const WEB = path.join(ROOT, 'web');
const VITE = path.join(ROOT, 'node_modules/vite/bin/vite.js');

/** The directory of the built dashboard. */
export const PAGE_DIRECTORY = path.join(WEB, 'dist');

/** Sources of the dashboard outside its own directory: files, and directories without others in them. */
export const SHARED_WITH_PAGE = [
  'db/alerts/alert-line.ts',
  'db/alerts/alert-name.ts',
  'db/alerts/alert-path.ts',
  'db/alerts/alerts.ts',
  'db/alerts/destination-kinds.ts',
  'db/events/management-scopes.ts',
  'db/fold/call-filter.ts',
  'db/fold/estimated.ts',
  'db/limits/meters.ts',
  'db/limits/subjects.ts',
  'db/limits/titles.ts',
  'db/money.ts',
  'db/pricing/',
  'db/projections/buckets.ts',
  'db/spend/sink-kinds.ts',
  'server/contract/backtest-period.ts',
  'server/contract/client-setup.ts',
  'server/contract/docs-site/docs-page.ts',
  'server/contract/live-protocol.ts',
  'server/contract/shell-word.ts',
];

/** Sources of the documentation that is built with the page. */
export const DOCUMENTATION = [
  'docs/',
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'CHANGELOG.md',
  'deploy/README.md',
  'bench/README.md',
];

/**
 * Builds the dashboard if its sources are present and newer than the last build. Never throws: without a
 * build the relay serves calls all the same, and the address of the dashboard shows how to build it.
 */
export async function buildPage(log: Logger): Promise<void> {
  try {
    if (!existsSync(VITE) || !existsSync(path.join(WEB, 'index.html')) || !(await isStale())) return;
    const startedMs = performance.now();
    await build();
    log.info({ duration_ms: Math.round(performance.now() - startedMs) }, 'dashboard built');
  } catch (error) {
    log.warn(errorFields(error), 'dashboard build failed; run "npm run build" for the reason');
  }
}

async function isStale(): Promise<boolean> {
  const page = path.join(PAGE_DIRECTORY, 'index.html');
  if (!existsSync(page)) return true;
  const entries = await readdir(WEB, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name));
  const own = files.filter((name) => !name.startsWith(PAGE_DIRECTORY + path.sep));
  const shared = await Promise.all(['package-lock.json', ...DOCUMENTATION, ...SHARED_WITH_PAGE].map(filesIn));
  const times = await Promise.all([...own, ...shared.flat()].map(modifiedMs));
  const builtMs = await modifiedMs(page);
  return times.some((time) => time > builtMs);
}

async function filesIn(name: string): Promise<string[]> {
  const full = path.join(ROOT, name);
  return name.endsWith('/') ? (await readdir(full)).map((file) => path.join(full, file)) : [full];
}

async function modifiedMs(name: string): Promise<number> {
  return (await stat(name)).mtimeMs;
}

/** Builds into a temporary directory and renames it, so that no partial build is served. */
async function build(): Promise<void> {
  const aside = path.join(ROOT, `node_modules/.daybook-page-${process.pid}`);
  try {
    await run([VITE, 'build', WEB, '--outDir', aside, '--emptyOutDir', '--logLevel', 'silent']);
    await rm(PAGE_DIRECTORY, { recursive: true, force: true });
    await rename(aside, PAGE_DIRECTORY);
  } finally {
    await rm(aside, { recursive: true, force: true });
  }
}

/** Runs the build without the environment variables of this process, some of which are secrets. */
function run(args: readonly string[]): Promise<void> {
  const { PATH, HOME, TMPDIR } = process.env;
  const env = Object.fromEntries(
    Object.entries({ PATH, HOME, TMPDIR, NODE_ENV: 'production' }).filter(([, value]) => value !== undefined),
  );
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, {
      cwd: ROOT,
      env,
      stdio: 'ignore',
      timeout: PAGE_BUILD_MS,
      killSignal: 'SIGKILL',
    });
    child.once('error', reject);
    child.once('exit', (code, signal) =>
      code === 0 ? resolve() : reject(new Error(`the build ended with ${signal ?? code}`)),
    );
  });
}
