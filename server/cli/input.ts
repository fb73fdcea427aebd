import { readFileSync } from 'node:fs';
import { createInterface, type ReadLineOptions } from 'node:readline/promises';
import { Writable } from 'node:stream';
import type { Command } from '#db/command-line/command.ts';
import { SECRET_CHARACTERS_MAX } from '#server/decide/bounds.ts';
import { DecisionError } from '#server/decide/decision.ts';

/**
 * Input of commands from the terminal, pipes and files. Secrets are never arguments, which all users of a
 * machine can see.
 */

/** At most four bytes per character, plus a line ending and a byte order mark. */
const SECRET_BYTES_MAX = SECRET_CHARACTERS_MAX * 4 + 16;

/**
 * Reads a secret from a file, or else from the input; a terminal doesn't echo it. A trailing line ending is
 * removed.
 * @throws {DecisionError} with one line that never contains the secret.
 */
export async function readSecret(command: Command, file: string | undefined): Promise<string> {
  const text = file === undefined ? await fromInput(command) : readSecretFile(file);
  return text.replace(/\r?\n$/, '');
}

/** @throws {DecisionError} when the file can't be read, or is too long for a secret. */
export function readSecretFile(file: string): string {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    throw new DecisionError('invalid', `${file} can't be read (${(error as NodeJS.ErrnoException).code}).`);
  }
  if (bytes.length > SECRET_BYTES_MAX)
    throw new DecisionError('invalid', `${file} is too long for a secret.`);
  return bytes.toString();
}

async function fromInput({ surroundings }: Command): Promise<string> {
  const input = surroundings.input?.();
  if (!input)
    throw new DecisionError('invalid', 'No secret was given. Pipe it in, or name a file with --file.');
  if (input.isTTY === true) {
    surroundings.err('The secret, which is not shown: ');
    const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
    const line = await readLine({ input, output: silent, terminal: true });
    surroundings.err('\n');
    return line;
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of input) {
    chunks.push(Buffer.from(chunk));
    bytes += Buffer.byteLength(chunk);
    if (bytes > SECRET_BYTES_MAX)
      throw new DecisionError('invalid', 'The piped input is too long for a secret.');
  }
  return Buffer.concat(chunks).toString();
}

/** Asks the user to confirm. @throws {DecisionError} when the input is not a terminal. */
export async function confirm({ surroundings }: Command, question: string): Promise<boolean> {
  const input = surroundings.input?.();
  if (input?.isTTY !== true)
    throw new DecisionError(
      'invalid',
      'The input is not a terminal to confirm the changes. Add --yes, or --dry-run to show them only.',
    );
  surroundings.err(`${question} [y/N] `);
  return /^y(es)?$/i.test((await readLine({ input })).trim());
}

/** @throws {DecisionError} when the user ends or interrupts the input. */
async function readLine(options: ReadLineOptions): Promise<string> {
  const lines = createInterface(options);
  const ended = Promise.withResolvers<never>();
  lines.once('close', () =>
    ended.reject(new DecisionError('invalid', 'The input ended without an answer, so nothing was done.')),
  );
  try {
    return await Promise.race([lines.question(''), ended.promise]);
  } finally {
    lines.close();
  }
}
