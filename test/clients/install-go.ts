import { spawnSync } from 'node:child_process';
import path from 'node:path';

/** Builds the Go clients below test/clients/install, where there is Go. */
const program = path.join(import.meta.dirname, 'install/node_modules/.go/openai');
const built = spawnSync('go', ['build', '-o', program, '.'], {
  cwd: path.join(import.meta.dirname, 'go'),
  stdio: ['ignore', 'ignore', 'inherit'],
});
if (built.status !== 0) console.warn('The Go clients are skipped: they need Go.');
