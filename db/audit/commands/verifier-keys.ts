import { readFileSync } from 'node:fs';
import { StoreError } from '#db/postgres/connect.ts';
import { NoteError, parseVerifierKey, type Verifier } from '#db/tlog/note.ts';

/**
 * Reads verifier keys from options, each of which is a key line or a file of key lines.
 * @throws {StoreError} when one is neither, or is a key of the other kind.
 */
export function readKeys(given: readonly string[], kind: Verifier['kind']): Verifier[] {
  return given.flatMap(linesOf).map((line) => {
    try {
      const verifier = parseVerifierKey(line);
      if (verifier.kind === kind) return verifier;
    } catch (error) {
      if (!(error instanceof NoteError)) throw error;
      throw new StoreError(`"${line.slice(0, 200)}" is not a verifier key: ${error.message}`, {
        cause: error,
      });
    }
    throw new StoreError(
      kind === 'ed25519'
        ? `${line} is the key of a witness, not of a log`
        : `${line} is the key of a log, not of a witness`,
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
      `${given} is neither a verifier key nor a file of verifier keys ` +
        `(${(error as NodeJS.ErrnoException).code})`,
      { cause: error },
    );
  }
  // An empty file must not mean that any key is trusted.
  if (lines.length === 0) throw new StoreError(`${given} has no verifier key in it`);
  return lines;
}
