import { readFileSync, readlinkSync, realpathSync } from 'node:fs';
import { join } from 'node:path';

/** The embedded Postgres of a data directory, below its server or not; null when none runs. */
export function postmasterOf(dataDir: string): number | null {
  const cluster = join(dataDir, 'postgres');
  try {
    const pid = Number(readFileSync(join(cluster, 'postmaster.pid'), 'utf8').split('\n')[0]);
    // The file outlives a Postgres that was killed, and its number may be another process's by now.
    return readlinkSync(`/proc/${pid}/cwd`) === realpathSync(cluster) ? pid : null;
  } catch {
    return null;
  }
}
