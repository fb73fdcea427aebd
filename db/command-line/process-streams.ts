import type { Surroundings } from '#db/command-line/command.ts';

/** The exit code of a program whose reader has closed the pipe: that of SIGPIPE. */
const CLOSED_PIPE = 141;

/**
 * The environment and streams of this process, for its command. Output that can't be written ends the
 * command: silently where the reader has closed the pipe, otherwise with the reason and exit code 1.
 * @param program the name that the reason begins with.
 */
export function processSurroundings(program: string): Surroundings {
  endWithOutput(program);
  return {
    env: process.env,
    out: (text) => process.stdout.write(text),
    err: (text) => process.stderr.write(text),
    input: () => process.stdin,
  };
}

/** Ends this process when its standard output can't be written. */
export function endWithOutput(program: string): void {
  process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
    if (code === 'EPIPE') process.exit(CLOSED_PIPE);
    process.stderr.write(`${program}: standard output can't be written (${code}).\n`);
    process.exit(1);
  });
  // Without standard error there is nowhere to report to.
  process.stderr.on('error', () => undefined);
}
