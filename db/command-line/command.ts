import { Command as Parser, CommanderError } from 'commander';

/** Environment and streams of a command: those of its process, or a test's. */
export type Surroundings = {
  env: NodeJS.ProcessEnv;
  out: (text: string) => void;
  err: (text: string) => void;
  /** Standard input, opened by its reader; absent without a terminal or pipe. */
  input?: () => Input;
};
export type Input = NodeJS.ReadableStream & { isTTY?: boolean };

/** A command with its surroundings, which its subcommands share. */
export class Command extends Parser {
  readonly surroundings: Surroundings;

  constructor(surroundings: Surroundings, name?: string) {
    super(name);
    this.surroundings = surroundings;
    this.configureOutput({ writeOut: surroundings.out, writeErr: surroundings.err });
  }

  override createCommand(name?: string): Command {
    return new Command(this.surroundings, name);
  }
}

/** Ends a command that succeeded in finding a fault: exit code 1, and the report is already printed. */
export class FoundFault extends CommanderError {
  constructor() {
    super(1, 'daybook.found_fault', '');
  }
}

/** Collects the values of a repeatable option; without one the option is absent. */
export const collect = (value: string, before: string[] = []): string[] => [...before, value];
