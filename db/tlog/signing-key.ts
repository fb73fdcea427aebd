import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { StoreError } from '#db/postgres/connect.ts';
import { NoteError, type Signer, signerOf } from '#db/tlog/note.ts';

/**
 * The file with the key that signs checkpoints. It is outside the database, so that write access to the
 * database is not enough to sign a forged log. During a key rotation it contains both keys, the newer one
 * first.
 */

const PEM = /-----BEGIN PRIVATE KEY-----[^-]+-----END PRIVATE KEY-----\n?/g;
const KEYS_MAX = 2;

/** The path of the key file. */
export function signingKeyFile(config: {
  DAYBOOK_DATA: string;
  DAYBOOK_SIGNING_KEY_FILE?: string | undefined;
}): string {
  return path.resolve(config.DAYBOOK_SIGNING_KEY_FILE ?? path.join(config.DAYBOOK_DATA, 'signing-key'));
}

/**
 * The signers of a log with this origin, the newest key first; null if the file does not exist.
 * @throws {StoreError} when other users can read the file, or it does not contain one or two keys.
 */
export function readSigners(file: string, origin: string): Signer[] | null {
  let text: string;
  try {
    if (process.platform !== 'win32' && (statSync(file).mode & 0o077) !== 0) {
      throw new StoreError(`DAYBOOK_SIGNING_KEY_FILE: other users can read ${file}. Run: chmod 600 ${file}`);
    }
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  const pems = text.match(PEM) ?? [];
  try {
    if (pems.length === 0 || pems.length > KEYS_MAX)
      throw new NoteError('it must contain one or two Ed25519 keys in PEM');
    return pems.map((pem) => signerOf(origin, 'ed25519', pem));
  } catch (error) {
    throw new StoreError(`DAYBOOK_SIGNING_KEY_FILE: ${file}: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

/** Generates a key if the file does not exist. Of two concurrent callers one writes the file. */
export function createSigningKey(file: string): void {
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  try {
    writeFileSync(file, newKey(), { mode: 0o600, flag: 'wx', flush: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/**
 * Adds a new key before the current one. Both sign until {@link dropOldKey}.
 * @throws {StoreError} when the file already contains two keys.
 */
export function addSigningKey(file: string): void {
  const pems = pemsIn(file);
  if (pems.length > 1)
    throw new StoreError(
      `${file} already contains two keys: drop the old one first with "daybook log drop-key"`,
    );
  writeAtomically(file, newKey() + pems.join(''));
}

/** Removes the older of two keys. @throws {StoreError} when the file contains only one. */
export function dropOldKey(file: string): void {
  const pems = pemsIn(file);
  if (pems.length < KEYS_MAX) throw new StoreError(`${file} contains one key: there is no older one to drop`);
  writeAtomically(file, pems[0] as string);
}

function pemsIn(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').match(PEM) ?? [];
  } catch (error) {
    throw new StoreError(
      `${file} can't be read: run this where the worker runs, with its DAYBOOK_SIGNING_KEY_FILE`,
      { cause: error },
    );
  }
}

const newKey = (): string =>
  generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' });

/** Replaces the file atomically. */
function writeAtomically(file: string, text: string): void {
  writeFileSync(`${file}.partial`, text, { mode: 0o600, flush: true });
  renameSync(`${file}.partial`, file);
}
