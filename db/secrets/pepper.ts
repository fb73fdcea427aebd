import { createHmac } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';

/** The path of the pepper file: the secret behind the digests of keys and the seals of alert destinations. */
export function pepperFile(config: {
  DAYBOOK_DATA: string;
  DAYBOOK_PEPPER_FILE?: string | undefined;
}): string {
  return path.resolve(config.DAYBOOK_PEPPER_FILE ?? path.join(config.DAYBOOK_DATA, 'pepper'));
}

/**
 * Reads the pepper; null if there is no file.
 * @param fault makes the error for the operator from a line of text.
 */
export function readPepper(file: string, fault: (line: string) => Error): Buffer | null {
  let text: string;
  try {
    if (process.platform !== 'win32' && (statSync(file).mode & 0o077) !== 0) {
      throw fault(`DAYBOOK_PEPPER_FILE is not usable: other users can read ${file}. Run: chmod 600 ${file}`);
    }
    text = readFileSync(file, 'utf8').trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  if (!/^[0-9a-f]{64}$/.test(text)) {
    throw fault(`DAYBOOK_PEPPER_FILE is not usable: ${file} must hold 64 hexadecimal characters.`);
  }
  return Buffer.from(text, 'hex');
}

/** The check value of the pepper in the database, which does not reveal the pepper. */
export const pepperCheck = (pepper: Buffer): string =>
  createHmac('sha256', pepper).update('daybook pepper check').digest('hex');
