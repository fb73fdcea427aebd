import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { readdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { DAMAGED_LOCK_SETTLE_MS } from '#db/bounds.ts';

/** Postgres' lock files in a cluster: its own, and that of its Unix socket. */
const LOCK_FILE = /^(?:postmaster\.pid|\.s\.PGSQL\.\d+\.lock)$/;

/** Each begins with a process id on a line of its own, written at once. */
const isDamaged = (text: string): boolean => !/^-?\d+\n/.test(text);

/**
 * Removes lock files that are empty or cut, as a power failure leaves them: Postgres can't know whose they
 * are and refuses to start until a person removes them. They are removed only if no Postgres of this
 * machine runs on the cluster, and if they stay as they are for a moment, because a Postgres that is just
 * starting creates them empty.
 * @param isServed whether something replies at the cluster's address, which may be in another container.
 */
export async function removeDamagedLocks(
  cluster: string,
  isServed: () => Promise<boolean>,
  log: (line: string) => void,
): Promise<void> {
  const seen = await damagedLocks(cluster);
  if (seen.length === 0) return;
  await sleep(DAMAGED_LOCK_SETTLE_MS);
  if (isClusterRunning(cluster) || (await isServed())) return;
  for (const name of await damagedLocks(cluster)) {
    if (!seen.includes(name)) continue;
    await rm(path.join(cluster, name), { force: true });
    log(`removed ${path.join(cluster, name)}, which was damaged, as after a power failure`);
  }
}

async function damagedLocks(cluster: string): Promise<string[]> {
  const names = await readdir(cluster).catch(() => []);
  const damaged: string[] = [];
  for (const name of names) {
    if (!LOCK_FILE.test(name)) continue;
    const text = await readFile(path.join(cluster, name), 'utf8').catch(() => null);
    if (text !== null && isDamaged(text)) damaged.push(name);
  }
  return damaged;
}

/** Whether a Postgres runs on this cluster, whatever its lock file says. */
function isClusterRunning(cluster: string): boolean {
  return commandLines().some((words) => words.includes(`-D ${cluster} `));
}

function commandLines(): string[] {
  if (process.platform === 'win32') return [];
  if (process.platform !== 'linux')
    return execFileSync('ps', ['-axo', 'command='], { encoding: 'utf8' })
      .split('\n')
      .map((line) => `${line} `);
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
      } catch {
        return '';
      }
    });
}
