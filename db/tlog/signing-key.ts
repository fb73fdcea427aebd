import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { StoreError } from '#db/postgres/connect.ts';
import { NoteError, type Signer, signerOf } from '#db/tlog/note.ts';

/**
 * The file with the key that signs checkpoints. It lies outside the database: whoever can write there
 * can change everything in it, but can't sign what they made of it. While one key takes the place of
 * another both stand in it, the newer one first.
 */

const PEM = /-----BEGIN PRIVATE KEY-----[^-]+-----END PRIVATE KEY-----\n?/g;
const KEYS_MAX = 2;

/** Where the key lies. */
export function signingKeyFile(config: {
  DAYBOOK_DATA: string;
  DAYBOOK_SIGNING_KEY_FILE?: string | undefined;
}): string {
  return path.resolve(config.DAYBOOK_SIGNING_KEY_FILE ?? path.join(config.DAYBOOK_DATA, 'signing-key'));
}

/**
 * Those who sign for a log by this name, the newest key first; null where there is no such file.
 * @throws {StoreError} in one line, when others can read the file or it holds no such keys.
 */
export function readSigners(file: string, origin: string): Signer[] | null {
  let text: string;
  try {
    if (process.platform !== 'win32' && (statSync(file).mode & 0o077) !== 0) {
      throw new StoreError(
        `DAYBOOK_SIGNING_KEY_FILE is not usable: other users can read ${file}. Run: chmod 600 ${file}`,
      );
    }
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  const pems = text.match(PEM) ?? [];
  try {
    if (pems.length === 0 || pems.length > KEYS_MAX)
      throw new NoteError('it must hold one Ed25519 key in PEM, or two');
    return pems.map((pem) => signerOf(origin, 'ed25519', pem));
  } catch (error) {
    throw new StoreError(`DAYBOOK_SIGNING_KEY_FILE is not usable: ${file}: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

/**
 * Makes a key where there is none. Of two who do so at once one writes, and the other finds what that one
 * wrote.
 */
export function createSigningKey(file: string): void {
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  try {
    writeFileSync(file, newKey(), { mode: 0o600, flag: 'wx', flush: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/**
 * Puts a new key before the one in use; both sign until {@link dropOldKey}. @throws {StoreError} while an
 * older one is there still.
 */
export function addSigningKey(file: string): void {
  const pems = pemsIn(file);
  if (pems.length > 1)
    throw new StoreError(`${file} holds two keys already: drop the old one first, by "daybook log drop-key"`);
  replace(file, newKey() + pems.join(''));
}

/** Drops the older of two keys. @throws {StoreError} when there is only one. */
export function dropOldKey(file: string): void {
  const pems = pemsIn(file);
  if (pems.length < KEYS_MAX) throw new StoreError(`${file} holds one key: there is no older one to drop`);
  replace(file, pems[0] as string);
}

function pemsIn(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').match(PEM) ?? [];
  } catch (error) {
    throw new StoreError(
      `${file} can't be read: this has to be done where the worker runs, with its DAYBOOK_SIGNING_KEY_FILE`,
      { cause: error },
    );
  }
}

const newKey = (): string =>
  generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' });

/** Under the name there is either what was before, or all of it. */
function replace(file: string, text: string): void {
  writeFileSync(`${file}.partial`, text, { mode: 0o600, flush: true });
  renameSync(`${file}.partial`, file);
}
