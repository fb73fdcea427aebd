import type { Command } from '#db/command-line/command.ts';

/** Sums of money may exceed the integers that a JSON number has exactly: they are decimal strings. */
const sumAsText = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? String(value) : value);

/** Prints a result as JSON or as text, as the caller asked for it. */
export function print<T>(command: Command, result: T, show: (result: T) => string): void {
  const { json } = command.optsWithGlobals<{ json?: boolean }>();
  command.surroundings.out(`${json === true ? JSON.stringify(result, sumAsText) : show(result)}\n`);
}

/** Adds `--json` to a command, so that it is accepted before and after the command's name. */
export function withJson(command: Command): Command {
  return command.option('--json', 'print the result as JSON');
}
