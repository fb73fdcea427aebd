import { existsSync, mkdirSync } from 'node:fs';
import { copyCluster } from '../../test/support/cluster-copy.ts';

/**
 * Makes a data directory if it isn't there yet. It is empty, except in the test suite, where it has a copy of
 * the suite's cluster: a start then creates none.
 */
export async function makeDataDirectory(directory: string): Promise<void> {
  if (existsSync(directory)) return;
  mkdirSync(directory);
  await copyCluster(directory);
}
