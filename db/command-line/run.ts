import { CommanderError } from 'commander';
import { ArchiveDamageError } from '#db/archive/verify.ts';
import { Command, type Surroundings } from '#db/command-line/command.ts';
import { StoreError } from '#db/postgres/connect.ts';

/**
 * A program: its name, what it is, and what adds its commands to it, in the order in which the help lists
 * them.
 */
export type Program = {
  name: string;
  description: string;
  groups: readonly ((program: Command) => void)[];
  /** The code of an error whose message is for who gave the command; null for all others. */
  codeOf: (error: Error) => string | null;
};

/** What the ground itself says to people. */
export function codeOfStore(error: Error): string | null {
  if (error instanceof ArchiveDamageError) return 'damaged';
  return error instanceof StoreError ? 'unavailable' : null;
}

/**
 * Runs what the arguments say.
 * @param args what stands after the program's name.
 * @returns the exit code.
 * @throws {Error} whatever is not for who gave the command.
 */
export async function runCommands(
  { name, description, groups, codeOf }: Program,
  args: readonly string[],
  surroundings: Surroundings,
): Promise<number> {
  const program = new Command(surroundings, name)
    .description(description)
    .option('--json', 'print the result as JSON')
    .showHelpAfterError('(add --help for what there is)')
    .exitOverride();
  for (const add of groups) add(program);
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
