import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * What `npm start` of a checkout passes to Node before the server's file, so that the server is measured
 * as users run it.
 * @throws {Error} when its script is not `node FLAGS server/main.ts`.
 */
export function readStartFlags(checkout: string): string[] {
  const text = readFileSync(join(checkout, 'package.json'), 'utf8');
  const { start } = (JSON.parse(text) as { scripts: { start: string } }).scripts;
  const [node, ...flags] = start.split(' ');
  if (node !== 'node' || flags.pop() !== 'server/main.ts') throw new Error(`npm start runs "${start}"`);
  return flags;
}
