import { spawnSync } from 'node:child_process';
import path from 'node:path';

/** Installs the Python clients below test/clients/install, where there is Python 3 with venv and pip. */
const INSTALL = path.join(import.meta.dirname, 'install');
const venv = path.join(INSTALL, 'node_modules/.python');
const pip = path.join(venv, 'bin/pip');
const run = (program: string, args: readonly string[]): boolean =>
  spawnSync(program, args, { stdio: ['ignore', 'ignore', 'inherit'] }).status === 0;

const requirements = path.join(INSTALL, 'requirements.txt');
if (
  !run(process.env['PYTHON'] ?? 'python3', ['-m', 'venv', venv]) ||
  !run(pip, ['install', '-q', '-r', requirements])
)
  console.warn('The Python clients are skipped: they need Python 3 with venv and pip.');
