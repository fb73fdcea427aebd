import { Command as Parser, CommanderError } from 'commander';

/** What a command reads and writes beside its arguments: those of its process, or others. */
export type Surroundings = {
  env: NodeJS.ProcessEnv;
  out: (text: string) => void;
  err: (text: string) => void;
  /** What is typed or piped in, opened by who reads it; absent where nobody is there. */
  input?: () => Input;
};
export type Input = NodeJS.ReadableStream & { isTTY?: boolean };

/** A command that knows its surroundings, which those below it share. */
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

/** Ends a command that did its work and found what should not be: it exits with 1, and has said why. */
export class FoundFault extends CommanderError {
  constructor() {
    super(1, 'daybook.found_fault', '');
  }
}
