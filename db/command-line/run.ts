import { readFileSync } from 'node:fs';
import path from 'node:path';
import { CommanderError } from 'commander';
import { ArchiveDamageError } from '#db/archive/damage.ts';
import { Command, type Surroundings } from '#db/command-line/command.ts';
import { StoreError, StoreUnavailable } from '#db/postgres/connect.ts';

/** A program: its name and description, and the functions that add its commands, in the order of its help. */
export type Program = {
  name: string;
  description: string;
  groups: readonly ((program: Command) => void)[];
  /** The code of an error whose message is for the operator; null for all others. */
  codeOf: (error: Error) => string | null;
};

/** Exit codes. Of "apply --dry-run", "drift" and "witness", 2 has a meaning of its own. */
const EXIT_NOT_FOUND = 3;
const EXIT_UNAVAILABLE = 4;
const EXIT_USAGE = 64;
/** A rejected change, a found fault, or a figure that doesn't verify. */
const EXIT_FAILED = 1;

/** The codes of errors of the database and the archive. */
export function codeOfStore(error: Error): string | null {
  if (error instanceof ArchiveDamageError) return 'damaged';
  return error instanceof StoreError ? 'unavailable' : null;
}

/**
 * Builds a program with all its commands, without running any: for its help, and for docs generated from it.
 */
export function buildCommands(
  { name, description, groups }: Omit<Program, 'codeOf'>,
  surroundings: Surroundings,
): Command {
  const program = new Command(surroundings, name)
    .description(description)
    .version(readVersion(), '-V, --version', 'print the version')
    .option('--json', 'print the result as JSON')
    .showHelpAfterError('Run with --help for usage.')
    .exitOverride();
  for (const add of groups) add(program);
  return program;
}

/**
 * Runs the command that the arguments name.
 * @param args those after the program's name.
 * @returns the exit code.
 * @throws {Error} any error without a code for the operator.
 */
export async function runCommands(
  definition: Program,
  args: readonly string[],
  surroundings: Surroundings,
): Promise<number> {
  const program = buildCommands(definition, surroundings);
  try {
    await program.parseAsync(args, { from: 'user' });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError)
      return error.code.startsWith('commander.') && error.exitCode !== 0 ? EXIT_USAGE : error.exitCode;
    const code = error instanceof Error ? definition.codeOf(error) : null;
    if (code === null) throw error;
    const { message } = error as Error;
    const isJson = program.opts<{ json?: boolean }>().json === true;
    surroundings.err(`${isJson ? JSON.stringify({ error: { code, message } }) : `daybook: ${message}`}\n`);
    if (error instanceof StoreUnavailable) return EXIT_UNAVAILABLE;
    return code === 'not_found' ? EXIT_NOT_FOUND : EXIT_FAILED;
  }
}

function readVersion(): string {
  const file = path.join(import.meta.dirname, '../../package.json');
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
