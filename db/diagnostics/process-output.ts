import { closeSync, constants, fstatSync, openSync, write, writeSync } from 'node:fs';
import { isatty } from 'node:tty';
import { DroppableOutput, type OutputTarget } from '#db/diagnostics/droppable-output.ts';

/**
 * Standard output and standard error of a long-running process. Diagnostics, and everything else that such a
 * process prints, go through these: a write to `process.stdout` waits while a terminal is paused, and grows
 * without a bound while the reader of a pipe is stopped.
 */
export const standardOutput = new DroppableOutput(() => openStandard(1));
export const standardError = new DroppableOutput(() => openStandard(2));
const OUTPUTS = [standardOutput, standardError];

/** Ends the process once its last lines are written, or can't be. */
export async function exitProcess(code: number): Promise<never> {
  await Promise.all(OUTPUTS.map((output) => output.flush()));
  // The end of a process waits for the system calls of its threads, and a blocked write never returns.
  if (OUTPUTS.some(({ underWay }) => underWay !== 'nothing')) process.kill(process.pid, 'SIGKILL');
  return exitNow(code);
}

/** Ends the process at once, with as many of its last lines as take no waiting. */
export function exitNow(code: number): never {
  for (const output of OUTPUTS) output.flushSync();
  if (OUTPUTS.some(({ underWay }) => underWay === 'blocking write')) process.kill(process.pid, 'SIGKILL');
  process.exit(code);
}

function openStandard(fd: 1 | 2): OutputTarget {
  const { fd: opened, mayBlock } = unblocked(fd);
  process.once('exit', () => (fd === 1 ? standardOutput : standardError).flushSync());
  return {
    write: (bytes, done) => write(opened, bytes, done),
    writeSync: (bytes) => writeSync(opened, bytes),
    mayBlock,
  };
}

/** The same output in such a way that a write fails instead of waiting for a reader. */
function unblocked(fd: 1 | 2): { fd: number; mayBlock: boolean } {
  if (isatty(fd)) {
    // Opened again, because a terminal's own descriptor is shared with the shell, which may not lose its
    // mode.
    const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = constants;
    try {
      const opened = openSync(`/dev/fd/${fd}`, O_WRONLY | O_NONBLOCK | O_NOCTTY);
      if (isatty(opened)) return { fd: opened, mayBlock: false };
      closeSync(opened);
    } catch {
      // Another user's terminal.
    }
    return { fd, mayBlock: true };
  }
  const stat = fstatSync(fd);
  // Node puts the descriptor of a pipe or socket into non-blocking mode when its stream is created.
  if (stat.isFIFO() || stat.isSocket()) void (fd === 1 ? process.stdout : process.stderr);
  return { fd, mayBlock: false };
}
