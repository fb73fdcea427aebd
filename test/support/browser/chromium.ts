import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

const MODULES = path.join(import.meta.dirname, '../../../node_modules');
const PACKAGE = '@sparticuz/chromium';

const UNPACK = `import chromium from '${PACKAGE}'; await chromium.executablePath();`;
/** Unpacking takes three seconds of an idle processor. */
const UNPACK_MS_MAX = 120_000;

/**
 * The path of the packaged Chromium, unpacked once per checkout and package version.
 *
 * The package itself unpacks into the system's temporary directory, which users share: a second user can't
 * execute the first one's file, another user could put a program there, and two processes that unpack at
 * the same time execute a file that is still being written. So it unpacks into a directory of this call, and
 * the complete directory takes its final name in one step.
 */
export async function chromiumPath(): Promise<string> {
  const { version } = JSON.parse(readFileSync(path.join(MODULES, PACKAGE, 'package.json'), 'utf8'));
  const directory = path.join(MODULES, `.cache/daybook/chromium-${version}`);
  const program = path.join(directory, 'chromium');
  if (existsSync(program)) return program;
  await mkdir(path.dirname(directory), { recursive: true });
  const own = await mkdtemp(`${directory}.`);
  try {
    await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', UNPACK], {
      cwd: path.dirname(MODULES),
      env: { ...process.env, TMPDIR: own },
      timeout: UNPACK_MS_MAX,
    });
    await rename(own, directory);
  } catch (error) {
    // Another process was first.
    if (!existsSync(program)) throw error;
  } finally {
    await rm(own, { recursive: true, force: true });
  }
  return program;
}
