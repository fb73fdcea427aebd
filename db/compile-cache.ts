import { enableCompileCache } from 'node:module';
import path from 'node:path';

/**
 * Enables Node's compile cache, beside the packages: it halves the start of a program. Has to be called
 * before the sources are imported. Without write access there, the cache is off.
 */
export function keepCompiled(): void {
  enableCompileCache(path.join(import.meta.dirname, '../node_modules/.cache/daybook'));
}
