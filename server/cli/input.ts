import { readFileSync } from 'node:fs';
import { createInterface, type ReadLineOptions } from 'node:readline/promises';
import { Writable } from 'node:stream';
import type { Command } from '#db/command-line/command.ts';
import { SECRET_CHARACTERS_MAX } from '#server/decide/bounds.ts';
import { DecisionError } from '#server/decide/decision.ts';

/**
 * What commands are told by their input and by files: secrets never stand among the arguments, which all
 * users of a machine can see.
 */

/** A character has four bytes at most; the line's end and a mark of order come on top. */
const SECRET_BYTES_MAX = SECRET_CHARACTERS_MAX * 4 + 16;

/**
 * Reads a secret from a file, or else from the input; whoever types it does not see it. A line's end
 * behind it is no part of it.
 * @throws {DecisionError} in one line that never repeats it.
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
    throw new DecisionError('invalid', 'There is no secret: pipe it in, or name a file with --file.');
  if (input.isTTY === true) {
    surroundings.err('The secret, which is not shown: ');
    const silent = new Writable({ write: (_piece, _encoding, done) => done() });
    const line = await readLine({ input, output: silent, terminal: true });
    surroundings.err('\n');
    return line;
  }
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of input) {
    pieces.push(Buffer.from(piece));
    bytes += Buffer.byteLength(piece);
    if (bytes > SECRET_BYTES_MAX)
      throw new DecisionError('invalid', 'What was piped in is too long for a secret.');
  }
  return Buffer.concat(pieces).toString();
}

/** Asks whoever gave the command. @throws {DecisionError} when nobody is there to be asked. */
export async function confirm({ surroundings }: Command, question: string): Promise<boolean> {
  const input = surroundings.input?.();
  if (input?.isTTY !== true)
    throw new DecisionError(
      'invalid',
      'Nobody is there to be asked: add --yes to go ahead, or --dry-run to look only.',
    );
  surroundings.err(`${question} [y/N] `);
  return /^y(es)?$/i.test((await readLine({ input })).trim());
}

/** @throws {DecisionError} when whoever is asked ends the input, or breaks off. */
async function readLine(options: ReadLineOptions): Promise<string> {
  const lines = createInterface(options);
  const ended = Promise.withResolvers<never>();
  lines.once('close', () =>
    ended.reject(new DecisionError('invalid', 'There was no answer, so nothing was done.')),
  );
  try {
    return await Promise.race([lines.question(''), ended.promise]);
  } finally {
    lines.close();
  }
}
