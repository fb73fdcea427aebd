import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { DecisionError } from '#server/decide/decision.ts';

/** The server that the user has logged in to, in a file that only this user can read. */

export type Login = { server: string; key: string };

const OTHERS = 0o077;

/** Null without a home directory. */
export function loginFile(env: NodeJS.ProcessEnv): string | null {
  const home = env['HOME'];
  const settings = env['XDG_CONFIG_HOME'] || (home && path.join(home, '.config'));
  return settings ? path.join(settings, 'daybook', 'login.json') : null;
}

/** @throws {DecisionError} for a file that others can read, or that isn't a login. */
export function readLogin(env: NodeJS.ProcessEnv): Login | null {
  const file = loginFile(env);
  if (file === null) return null;
  let text: string;
  try {
    if (process.platform !== 'win32' && (statSync(file).mode & OTHERS) !== 0)
      throw new DecisionError(
        'invalid',
        `${file} can be read by other users. Run: chmod 600 ${file}, and replace the key.`,
      );
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  try {
    const { server, key } = JSON.parse(text) as Partial<Login>;
    if (typeof server === 'string' && typeof key === 'string') return { server, key };
  } catch {
    // The next line reports it.
  }
  throw new DecisionError('invalid', `${file} is not a login. Run: daybook logout`);
}

/** Replaces the file at once: it is never empty, and never readable by others. @returns its path. */
export function writeLogin(env: NodeJS.ProcessEnv, login: Login): string {
  const file = loginFile(env);
  if (file === null) throw new DecisionError('invalid', 'Set HOME, where the login is stored.');
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  const written = `${file}.${process.pid}`;
  writeFileSync(written, `${JSON.stringify(login)}\n`, { mode: 0o600, flag: 'wx' });
  chmodSync(written, 0o600);
  renameSync(written, file);
  return file;
}

export function removeLogin(env: NodeJS.ProcessEnv): void {
  const file = loginFile(env);
  if (file !== null) rmSync(file, { force: true });
}
