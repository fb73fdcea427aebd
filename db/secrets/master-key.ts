import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { MASTER_KEY_BYTES, masterKeyId, type MasterKeys } from '#db/secrets/envelope.ts';

/** The current key, the previous one, and those that old backups need: more are a mistake. */
export const MASTER_KEYS_MAX = 16;

/**
 * The path of the master key file: beside the data directory, not in it, so that a copy of the directory does
 * not contain the key.
 */
export function masterKeyFile(config: {
  DAYBOOK_DATA: string;
  DAYBOOK_MASTER_KEY_FILE?: string | undefined;
}): string {
  return path.resolve(
    config.DAYBOOK_MASTER_KEY_FILE ?? `${config.DAYBOOK_DATA.replace(/[/\\]+$/, '')}.master-key`,
  );
}

/**
 * Reads the master keys, one per line, the first being the current one; null if there is no file.
 * @param fault makes the error for the operator from a line of text, which never contains a key.
 */
export function readMasterKeys(file: string, fault: (line: string) => Error): MasterKeys | null {
  const unusable = (why: string): Error => fault(`DAYBOOK_MASTER_KEY_FILE is not usable: ${why}`);
  let text: string;
  try {
    if (process.platform !== 'win32' && (statSync(file).mode & 0o077) !== 0)
      throw unusable(`other users can read ${file}. Run: chmod 600 ${file}`);
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return null;
    throw code === undefined ? error : unusable(`${file} can't be read (${code}).`);
  }
  const lines = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  if (lines.length === 0)
    throw unusable(`${file} is empty. Put the master key there from where you keep it.`);
  if (lines.length > MASTER_KEYS_MAX) throw unusable(`${file} has more than ${MASTER_KEYS_MAX} lines.`);
  if (!lines.every((line) => line.length === MASTER_KEY_BYTES * 2 && /^[0-9a-f]+$/.test(line))) {
    throw unusable(`each line of ${file} must hold 64 hexadecimal characters.`);
  }
  const keys = lines.map((line) => Buffer.from(line, 'hex'));
  const all = new Map(keys.map((key) => [masterKeyId(key), key]));
  return { current: masterKeyId(keys[0] as Buffer), all };
}
