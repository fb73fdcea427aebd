import { spawn } from 'node:child_process';
import path from 'node:path';
import type { Command } from '#db/command-line/command.ts';

/** `daybook start`, `worker` and `migrate`: the programs of an installation, in place of this one. */
const PROGRAMS = [
  {
    name: 'start',
    file: 'server/main',
    flags: ['--v8-pool-size=1'],
    description:
      'run the server, with its worker and its own PostgreSQL unless the environment says otherwise',
  },
  { name: 'worker', file: 'worker/main', flags: [], description: 'run a worker beside servers elsewhere' },
  {
    name: 'migrate',
    file: 'worker/migrate',
    flags: [],
    description: 'prepare the database of DATABASE_URL, then exit',
  },
] as const;

const ROOT = path.join(import.meta.dirname, '../..');
/** Of the sources, or of the npm package. */
const EXTENSION = path.extname(import.meta.filename);

export function startCommands(program: Command): void {
  for (const { name, file, flags, description } of PROGRAMS) {
    program
      .command(name)
      .description(description)
      .action(() => become(path.join(ROOT, file + EXTENSION), flags));
  }
}

/**
 * Runs a program with the process id, terminal and signals of this process. Where a process can't be replaced
 * (Windows), it is a child instead, and its exit code is passed on.
 */
function become(file: string, flags: readonly string[]): Promise<void> {
  const args = [...flags, file];
  if (process.platform !== 'win32' && process.execve)
    process.execve(process.execPath, [process.execPath, ...args], process.env);
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { stdio: 'inherit' });
    child.once('error', reject);
    child.once('exit', (code) => {
      process.exitCode = code ?? 1;
      resolve();
    });
  });
}
