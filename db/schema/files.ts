import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';

/** A file of SQL, as it is applied: its name without the ending, relative to the schema's folder. */
export type SqlFile = { name: string; text: string; digest: string };

/** The schema of a version of Daybook, in the order in which a new database gets it. */
export type Schema = {
  version: string;
  /** The release before this version, which serves beside it; null before the first release. */
  previous: string | null;
  roles: SqlFile;
  tables: SqlFile[];
  functions: SqlFile[];
  privileges: SqlFile;
  initial: SqlFile;
  /** What databases of earlier releases lack, oldest first. A new database never runs them. */
  migrations: SqlFile[];
  /** The snapshots of earlier releases, oldest first. */
  released: Release[];
};

/** A released schema: its snapshot creates it, and `migration` is the newest one that it contains. */
export type Release = { file: SqlFile; migration: string };

/**
 * The schema of this version. To change it after a release: edit tables/, and add a migration with the next
 * number that changes existing databases in the same way. At a release: copy snapshot.sql to
 * released/<version>.sql, from which a test then upgrades. Functions and privileges need no migration, unless
 * a function's arguments change.
 */
export const SCHEMA_FOLDER = import.meta.dirname;

/** Stands for the tables of the first release, before any migration. */
export const BASELINE = '0000_baseline';

/** Tables by subject. A file may use those before it. */
const TABLES = [
  'bookkeeping',
  'locks',
  'install',
  'instances',
  'log',
  'log_partitions',
  'merkle_tree',
  'readings',
  'limits',
  'projections',
  'alerts',
  'sinks',
  'stored_objects',
  'batches',
  'members',
  'secrets',
  'attribution',
  'idempotency',
  'reconciliation',
  'statement_emails',
];

/** Functions that others use in `begin atomic` bodies, which are bound when they are created. */
const FUNCTIONS_FIRST = [
  'log/head',
  'limits/window_start',
  'log/is_attached',
  'log/first_position',
  'log/batch_end',
  'log/lines',
];

/**
 * Reads the schema.
 * @param folder has the layout of db/schema.
 * @param release its version; that of package.json where it is absent.
 * @throws {Error} naming a file that the lists above don't have.
 */
export async function readSchema(folder: string = SCHEMA_FOLDER, release?: string): Promise<Schema> {
  const names = async (part: string): Promise<string[]> => {
    const files = await readdir(path.join(folder, part), { recursive: true }).catch(() => []);
    return files
      .filter((file) => file.endsWith('.sql'))
      .map((file) => file.replaceAll(path.sep, '/').slice(0, -'.sql'.length));
  };
  const read = async (name: string): Promise<SqlFile> => {
    const text = await readFile(path.join(folder, `${name}.sql`), 'utf8');
    return { name, text, digest: createHash('sha256').update(text).digest('hex') };
  };
  const readAll = (part: string, ordered: readonly string[]): Promise<SqlFile[]> =>
    Promise.all(ordered.map((name) => read(`${part}/${name}`)));

  const unlisted = (await names('tables')).filter((name) => !TABLES.includes(name));
  if (unlisted.length > 0)
    throw new Error(`db/schema/files.ts doesn't list the tables of ${unlisted.join(', ')}`);
  const functions = (await names('functions')).filter((name) => !FUNCTIONS_FIRST.includes(name)).toSorted();
  const released = await readAll('released', (await names('released')).toSorted(byVersion));
  const [roles, privileges, initial] = await Promise.all([
    read('roles'),
    read('privileges'),
    read('initial'),
  ]);
  const version = release ?? (await readVersion());
  return {
    version,
    previous: previousRelease(released, version),
    roles,
    tables: await readAll('tables', TABLES),
    functions: await readAll('functions', [...FUNCTIONS_FIRST, ...functions]),
    privileges,
    initial,
    migrations: await readAll('migrations', (await names('migrations')).toSorted()),
    released: released.map((file) => ({ file, migration: newestMigration(file.text) })),
  };
}

/** The newest of the released snapshots that is older than this version. */
function previousRelease(released: readonly SqlFile[], version: string): string | null {
  const older = released.findLast(({ name }) => byVersion(path.basename(name), version) < 0);
  return older === undefined ? null : path.basename(older.name);
}

async function readVersion(): Promise<string> {
  const text = await readFile(path.join(import.meta.dirname, '../../package.json'), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

/** The names of a version's migrations, oldest first, from the baseline on. */
export const migrationNames = ({ migrations }: Schema): string[] => [
  BASELINE,
  ...migrations.map(({ name }) => path.basename(name)),
];

/** The order of versions: `0.10.0` is newer than `0.9.0`. */
export function byVersion(one: string, other: string): number {
  return one.localeCompare(other, 'en', { numeric: true });
}

/** The first line of a snapshot. */
export const snapshotTitle = (version: string, migration: string): string =>
  `-- Daybook ${version}, migration ${migration}`;

function newestMigration(snapshot: string): string {
  const [, migration] = /^-- Daybook \S+, migration (\S+)$/m.exec(snapshot) ?? [];
  if (migration === undefined) throw new Error('a released snapshot lacks its title line');
  return migration;
}
