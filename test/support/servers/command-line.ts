import { expect } from 'vitest';
import type { Input } from '#db/command-line/command.ts';
import { runProgram } from '#server/cli/program.ts';

/** What a command left: its exit code, and what it wrote. */
export type Ran = { code: number; stdout: string; stderr: string };

/**
 * The command line as a program calls it, without a process for each command; those are in
 * test/process/first-run.test.ts.
 */
export type CommandLine = {
  daybook(...args: string[]): Promise<Ran>;
  /** What a command prints as JSON; it has to succeed and to complain of nothing. */
  json<T>(...args: string[]): Promise<T>;
  /** What a command prints for people; as above. */
  text(...args: string[]): Promise<string>;
};

/**
 * @param env all that the commands see of an environment, asked for each of them.
 * @param input what is typed or piped in; absent: nobody is there.
 */
export function commandLine(env: () => Record<string, string>, input?: () => Input): CommandLine {
  async function daybook(...args: string[]): Promise<Ran> {
    const ran = { code: 0, stdout: '', stderr: '' };
    ran.code = await runProgram(args, {
      env: env(),
      out: (piece) => (ran.stdout += piece),
      err: (piece) => (ran.stderr += piece),
      ...(input ? { input } : {}),
    });
    return ran;
  }
  async function text(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await daybook(...args);
    expect([code, stderr]).toEqual([0, '']);
    return stdout;
  }
  return {
    daybook,
    text,
    json: async <T>(...args: string[]) => JSON.parse(await text(...args, '--json')) as T,
  };
}
