import { randomBytes } from 'node:crypto';
import {
  chmod,
  chown,
  link,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
} from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { INITDB_TIMEOUT_MS, LEFTOVER_RETRIES_MAX } from '#db/bounds.ts';
import { StoreError } from '#db/postgres/connect.ts';
import type { Binaries } from '#db/postgres/embedded/binaries.ts';
import { remedyFor } from '#db/file-errors.ts';
import { reasonIn } from '#db/postgres/embedded/reason.ts';
import { command, run, type RunAs } from '#db/postgres/embedded/run-as.ts';

/** The paths of one embedded PostgreSQL, all in Daybook's data directory. */
export type ClusterPaths = { dataDir: string; cluster: string; passwords: string; log: string };

const Passwords = z.object({
  superuser: z.string().min(1),
  owner: z.string().min(1),
  relay: z.string().min(1),
  worker: z.string().min(1),
  auditor: z.string().min(1),
});
export type Passwords = z.infer<typeof Passwords>;

const PASSWORD_BYTES = 32;

/**
 * Settings that an operator may want to tune: written once into the new cluster's postgresql.conf. Settings
 * that Daybook depends on are on the command line instead (see postmaster.ts).
 */
const TUNING: Readonly<Record<string, string>> = {
  // Five for each server process, of which there may be 64, and some for workers and commands. An unused
  // slot takes 20 KB.
  max_connections: '400',
  shared_buffers: '128MB',
  // Appends write mostly WAL. Few checkpoints mean few full-page images.
  max_wal_size: '2GB',
  checkpoint_timeout: '15min',
  // Short statements only: compiling them would take longer than running them.
  jit: 'off',
};

/** The paths below a data directory, which need not exist. Creates nothing. */
export async function clusterPaths(dataDir: string): Promise<ClusterPaths> {
  const real = await realpath(dataDir).catch(() => path.resolve(dataDir));
  return {
    dataDir: real,
    cluster: path.join(real, 'postgres'),
    passwords: path.join(real, 'postgres-passwords.json'),
    log: path.join(real, 'postgres.log'),
  };
}

/**
 * Creates the data directory and its missing parents. Another user's Postgres may traverse it but not list
 * it. (Node's own recursive mkdir never returns if the file system reports ENOENT below an existing
 * directory, as /proc does.)
 */
export async function makeDataDir(directory: string): Promise<void> {
  const mode = process.getuid?.() === 0 ? 0o711 : 0o700;
  try {
    await mkdir(directory);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return;
    const parent = path.dirname(directory);
    if (code !== 'ENOENT' || parent === directory) throw error;
    await makeDataDir(parent);
    await mkdir(directory);
  }
  await chmod(directory, mode);
}

/**
 * The passwords of the cluster's roles.
 * @returns null if the file does not exist yet.
 * @throws {StoreError} if the file is damaged.
 */
export async function readPasswords(paths: ClusterPaths): Promise<Passwords | null> {
  const text = await readFile(paths.passwords, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (text === null) return null;
  try {
    return Passwords.parse(JSON.parse(text));
  } catch {
    throw new StoreError(
      `${paths.passwords} is damaged: restore it from a backup, PostgreSQL cannot be opened without it`,
    );
  }
}

/**
 * Reads the passwords, and creates them first if necessary. Concurrent starters all get the same ones: a
 * hard link appears with its whole content, and only for the first starter.
 */
export async function ensurePasswords(paths: ClusterPaths, { major }: Binaries): Promise<Passwords> {
  const known = await readPasswords(paths);
  if (known !== null) return known;
  if (await holdsCluster(paths, major)) {
    throw new StoreError(
      `${paths.passwords} is missing: restore it from a backup, PostgreSQL cannot be opened without it`,
    );
  }
  const fresh = Object.fromEntries(Object.keys(Passwords.shape).map((role) => [role, newPassword()]));
  const draft = `${paths.passwords}.new-${process.pid}`;
  await rm(draft, { force: true });
  await writeDurably(draft, `${JSON.stringify(fresh, null, 2)}\n`);
  try {
    await link(draft, paths.passwords);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    await rm(draft, { force: true });
  }
  return (await readPasswords(paths)) as Passwords;
}

function newPassword(): string {
  return randomBytes(PASSWORD_BYTES).toString('base64url');
}

/**
 * Creates the cluster unless it exists. It is created under another name and then renamed, so that a start
 * that was killed midway leaves nothing that looks like a cluster.
 * @throws {StoreError} if the directory holds something else, or initdb fails.
 */
export async function ensureCluster(
  paths: ClusterPaths,
  runAs: RunAs,
  binaries: Binaries,
  passwords: Passwords,
): Promise<void> {
  await removeLeftovers(paths);
  if (await holdsCluster(paths, binaries.major)) {
    await adoptOwnership(paths, runAs);
    return;
  }
  const draft = await mkdtemp(`${paths.cluster}.new-${process.pid}-`);
  const passwordFile = `${draft}.password`;
  try {
    await writeDurably(passwordFile, `${passwords.superuser}\n`);
    for (const file of [draft, passwordFile]) {
      if (runAs.owner !== null) await chown(file, runAs.owner.uid, runAs.owner.gid);
    }
    await initdb(runAs, binaries, draft, passwordFile);
    await writeTuning(draft);
    await rename(draft, paths.cluster);
    await syncDirectory(paths.dataDir);
  } catch (error) {
    // A concurrent starter was first. Its cluster has the same passwords.
    if (await holdsCluster(paths, binaries.major)) return;
    throw error;
  } finally {
    await rm(passwordFile, { force: true });
    await rm(draft, { recursive: true, force: true });
  }
}

async function initdb(
  runAs: RunAs,
  binaries: Binaries,
  directory: string,
  passwordFile: string,
): Promise<void> {
  const { program, args, options } = command(runAs, binaries.initdb, [
    `--pgdata=${directory}`,
    '--username=postgres',
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--locale=C',
    '--data-checksums',
    '--no-instructions',
  ]);
  await run(program, args, { ...options, timeout: INITDB_TIMEOUT_MS }).catch(
    (error: Error & { stderr?: string }) => {
      const reason = reasonIn(error.stderr?.trim().split('\n') ?? []) ?? error.message;
      throw new StoreError(
        `initdb failed in ${path.dirname(directory)}: ${reason}${remedyFor(reason, path.dirname(directory))}`,
      );
    },
  );
}

/** At the end of the file, where it is the last to be read: `initdb --set` needs PostgreSQL 16. */
async function writeTuning(directory: string): Promise<void> {
  const lines = Object.entries(TUNING).map(([name, value]) => `${name} = ${value}\n`);
  const handle = await open(path.join(directory, 'postgresql.conf'), 'a');
  try {
    await handle.appendFile(`\n# Defaults of Daybook\n${lines.join('')}`);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Whether the cluster exists. @throws {StoreError} if these programs can't run it. */
async function holdsCluster(paths: ClusterPaths, major: string): Promise<boolean> {
  const version = await readFile(path.join(paths.cluster, 'PG_VERSION'), 'utf8').catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return null;
      if (error.code === 'EACCES')
        throw new StoreError(`${paths.cluster} belongs to another user: start Daybook as that user`);
      throw error;
    },
  );
  if (version !== null && version.trim() !== major) {
    throw new StoreError(
      `${paths.cluster} was created by PostgreSQL ${version.trim()}, and this Daybook runs ${major}`,
    );
  }
  return version !== null;
}

/** A cluster that root restored from a copy belongs to root, which cannot run it. */
async function adoptOwnership(paths: ClusterPaths, runAs: RunAs): Promise<void> {
  if (runAs.owner === null || (await stat(paths.cluster)).uid !== 0) return;
  await run('chown', ['-R', `${runAs.owner.uid}:${runAs.owner.gid}`, paths.cluster]);
}

/** Removes the files of starts that were killed before they had created the cluster. */
async function removeLeftovers(paths: ClusterPaths): Promise<void> {
  for (const name of await readdir(paths.dataDir)) {
    const [, pid] = /^postgres(?:-passwords\.json)?\.new-(\d+)(?:-|$)/.exec(name) ?? [];
    // In a container each start has the same process id, so our own id marks a leftover as well.
    if (pid !== undefined && (Number(pid) === process.pid || !exists(Number(pid)))) {
      // The initdb of a killed start may still be writing. It fails when its files are gone.
      await rm(path.join(paths.dataDir, name), {
        recursive: true,
        force: true,
        maxRetries: LEFTOVER_RETRIES_MAX,
      });
    }
  }
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function writeDurably(file: string, text: string): Promise<void> {
  const handle = await open(file, 'wx', 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function syncDirectory(directory: string): Promise<void> {
  // Windows can't open directories and needs no such call.
  if (process.platform === 'win32') return;
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
