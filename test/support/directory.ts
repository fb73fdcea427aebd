import { mkdtemp, readdir, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { clusterPaths } from '#db/postgres/embedded/cluster.ts';
import { shutDown } from '#db/postgres/embedded/postmaster.ts';
import { masterKeyFile } from '#db/secrets/master-key.ts';

const PREFIX = 'daybook-test-';
const NAME = /^daybook-test-(\d+)-\w+$/;

/** Names the parent of a run's directories. Unset: the system's temporary directory. */
const PARENT_VARIABLE = 'TEST_DIRECTORY_PARENT';
/** Where Linux keeps files in memory. */
const MEMORY = '/dev/shm';
const TMPFS_MAGIC = 0x01021994;
/** A run needs a quarter at most, and may share the machine. */
const MEMORY_BYTES_MIN = 4 * 1024 ** 3;

/**
 * Keeps the directories of this run in memory, if there is enough. Cloning and dropping a database of 600
 * files takes a tenth of the CPU time there, and nothing waits for a disk. No test depends on a disk: data
 * that a killed process wrote remains in either case. The test processes inherit the variable.
 */
export async function chooseTestDirectoryParent(): Promise<void> {
  const memory = await statfs(MEMORY).catch(() => null);
  if (memory?.type !== TMPFS_MAGIC) return;
  const bytes = Math.min(memory.bavail * memory.bsize, process.availableMemory());
  if (bytes >= MEMORY_BYTES_MIN) process.env[PARENT_VARIABLE] ??= MEMORY;
}

/** Whether this run's directories are in memory. */
export const isInMemory = (): boolean => process.env[PARENT_VARIABLE] === MEMORY;

/**
 * A new empty directory. Its name contains the process id, so that a later run can remove the directories of
 * a killed one.
 */
export async function makeTestDirectory(): Promise<string> {
  return mkdtemp(path.join(process.env[PARENT_VARIABLE] ?? tmpdir(), `${PREFIX}${process.pid}-`));
}

/**
 * An environment with which checkpoints, too, are written within the test's own directory, and go with it.
 */
export function publishingWithin(env: Record<string, string>): Record<string, string> {
  const { DAYBOOK_DATA } = env;
  return DAYBOOK_DATA === undefined ? env : { PUBLISH_DIR: path.join(DAYBOOK_DATA, 'published'), ...env };
}

/**
 * Removes a test's directory, and the master key that a server put beside it. First stops the Postgres that a
 * failed test may have left in it.
 */
export async function removeTestDirectory(directory: string): Promise<void> {
  await shutDown(await clusterPaths(directory));
  await rm(directory, { recursive: true, force: true });
  await rm(masterKeyFile({ DAYBOOK_DATA: directory, DAYBOOK_MASTER_KEY_FILE: undefined }), { force: true });
}

/** Removes what runs that were killed left behind: their Postgres outlived them, as it should. */
export async function removeLeftoverDirectories(): Promise<void> {
  for (const parent of [tmpdir(), MEMORY]) {
    for (const name of await readdir(parent).catch(() => [])) {
      const [, pid] = NAME.exec(name) ?? [];
      if (pid === undefined || isRunning(Number(pid))) continue;
      // Another user's are theirs to remove.
      await removeTestDirectory(path.join(parent, name)).catch(() => undefined);
    }
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
