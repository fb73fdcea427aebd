import { spawnSync } from 'node:child_process';

/** Whether a program of this name is on the path: tests of its verdict are skipped where it isn't. */
export const hasTool = (name: string): boolean =>
  spawnSync(name, ['--version'], { stdio: 'ignore' }).error === undefined;

/** Runs a checker. @returns its output where it refuses, else null. */
export function refusalOf(name: string, args: readonly string[], input?: string): string | null {
  const { status, stdout, stderr } = spawnSync(name, args, { input, encoding: 'utf8', timeout: 60_000 });
  return status === 0 ? null : `${stdout}${stderr}`;
}
