import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { ClientConfig } from 'pg';

/** Nothing is allocated in the old generation because earlier objects of its kind lived long. */
const FLAGS = ['--expose-gc', '--no-allocation-site-pretenuring'];

/**
 * The bytes that V8's old generation grows by for each of many ended calls between full collections, measured
 * in a process of its own.
 * @param kind what has the calls, see `calls.ts`. @param config how statements connect.
 */
export async function keptBytes(
  kind: 'registry' | 'set' | 'statement' | 'statement of pg',
  config: ClientConfig = {},
): Promise<number> {
  const args = [...FLAGS, join(import.meta.dirname, 'calls.ts'), kind, JSON.stringify(config)];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return Number(stdout);
}
