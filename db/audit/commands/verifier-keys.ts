import { readFileSync } from 'node:fs';
import { StoreError } from '#db/postgres/connect.ts';
import { NoteError, parseVerifierKey, type Verifier } from '#db/tlog/note.ts';

/**
 * Verifier keys as options name them: the line itself, or a file of such lines.
 * @throws {StoreError} when one is neither, or of another kind.
 */
export function readKeys(given: readonly string[], kind: Verifier['kind']): Verifier[] {
  return given.flatMap(linesOf).map((line) => {
    try {
      const verifier = parseVerifierKey(line);
      if (verifier.kind === kind) return verifier;
    } catch (error) {
      if (!(error instanceof NoteError)) throw error;
      throw new StoreError(`"${line.slice(0, 200)}" is no verifier key: ${error.message}`, { cause: error });
    }
    throw new StoreError(
      kind === 'ed25519'
        ? `${line} is the key of a witness, and not of a log`
        : `${line} is the key of a log, and not of a witness`,
    );
  });
}

function linesOf(given: string): string[] {
  if (given.split('+').length > 2) return [given.trim()];
  let lines: string[];
  try {
    lines = readFileSync(given, 'utf8')
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '');
  } catch (error) {
    throw new StoreError(
      `${given} is no verifier key and no file of such (${(error as NodeJS.ErrnoException).code})`,
      { cause: error },
    );
  }
  // Whoever names a file trusts what is in it, and not everybody where that is nothing.
  if (lines.length === 0) throw new StoreError(`${given} holds no verifier key`);
  return lines;
}
