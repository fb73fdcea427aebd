import { enableCompileCache } from 'node:module';
import path from 'node:path';

/**
 * Enables Node's compile cache, beside the packages: it halves the start of a program. Has to be called
 * before the sources are imported. Without write access there, the cache is off. It is portable: it stays
 * valid in a directory that is moved or copied.
 *
 * Child processes inherit it by their environment, and so have it from their first module on: Node then
 * doesn't load its compiler of TypeScript, which takes 40 ms of CPU time.
 */
export function keepCompiled(): void {
  const directory = path.join(import.meta.dirname, '../node_modules/.cache/daybook');
  enableCompileCache({ directory, portable: true });
  process.env['NODE_COMPILE_CACHE'] ??= directory;
  process.env['NODE_COMPILE_CACHE_PORTABLE'] ??= '1';
}
