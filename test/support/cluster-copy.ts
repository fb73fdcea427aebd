import path from 'node:path';
import { clusterPaths } from '#db/postgres/embedded/cluster.ts';
import { run } from '#db/postgres/embedded/run-as.ts';
import { makeTestDirectory } from './directory.ts';

/** Names the data directory of this run's template cluster. Unset outside of the test suite. */
const TEMPLATE_VARIABLE = 'TEST_CLUSTER_TEMPLATE';

/**
 * Keeps a copy of a stopped server's cluster, with its passwords, as this run's template. The test processes
 * inherit the variable that names it.
 */
export async function keepTemplate(dataDir: string, template: string): Promise<void> {
  // The copies keep owners and modes, for which Windows has no such program.
  if (process.platform === 'win32') return;
  await copy(dataDir, template);
  process.env[TEMPLATE_VARIABLE] = template;
}

/**
 * Copies the template into a data directory, for a test that needs a PostgreSQL of its own but not its
 * creation: a copy takes a tenth of the CPU time of initdb, and is migrated. Outside of the test suite the
 * directory stays empty, and the start creates the cluster.
 */
export async function copyCluster(dataDir: string): Promise<void> {
  const template = process.env[TEMPLATE_VARIABLE];
  if (template !== undefined) await copy(template, dataDir);
}

/** A new directory with a copy of the template. */
export async function makeClusterDirectory(): Promise<string> {
  const directory = await makeTestDirectory();
  await copyCluster(directory);
  return directory;
}

async function copy(from: string, to: string): Promise<void> {
  const { cluster, passwords } = await clusterPaths(from);
  await run('cp', ['-a', cluster, passwords, path.join(to, '/')]);
}
