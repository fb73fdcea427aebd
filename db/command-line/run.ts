import { CommanderError } from 'commander';
import { ArchiveDamageError } from '#db/archive/verify.ts';
import { Command, type Surroundings } from '#db/command-line/command.ts';
import { StoreError } from '#db/postgres/connect.ts';

/** A command-line program. Its groups add their commands, in the order of the help. */
export type Program = {
  name: string;
  description: string;
  groups: readonly ((program: Command) => void)[];
  /** The code of an error whose message is meant for the user of the command; null for all others. */
  codeOf: (error: Error) => string | null;
};

/** The codes of the errors that `db/` itself reports to users. */
export function codeOfStore(error: Error): string | null {
  if (error instanceof ArchiveDamageError) return 'damaged';
  return error instanceof StoreError ? 'unavailable' : null;
}

/** The program with all its commands, without running one: for its help and the reference in docs/cli.md. */
export function buildProgram(
  { name, description, groups }: Omit<Program, 'codeOf'>,
  surroundings: Surroundings,
): Command {
  const program = new Command(surroundings, name)
    .description(description)
    .option('--json', 'print the result as JSON')
    .showHelpAfterError('Run with --help for usage.')
    .exitOverride();
  for (const add of groups) add(program);
  return program;
}

/**
 * Runs a command.
 * @param args the arguments after the program's name.
 * @returns the exit code.
 * @throws {Error} every error that `codeOf` has no code for.
 */
export async function runCommands(
  { codeOf, ...definition }: Program,
  args: readonly string[],
  surroundings: Surroundings,
): Promise<number> {
  const program = buildProgram(definition, surroundings);
  try {
    await program.parseAsync(args, { from: 'user' });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode;
    const code = error instanceof Error ? codeOf(error) : null;
    if (code === null) throw error;
    const { message } = error as Error;
    const isJson = program.opts<{ json?: boolean }>().json === true;
    surroundings.err(`${isJson ? JSON.stringify({ error: { code, message } }) : `daybook: ${message}`}\n`);
    return 1;
  }
}
