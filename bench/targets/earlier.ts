import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { daybook } from './daybook.ts';
import type { Target } from './target.ts';

/** The name of an earlier Daybook among the targets. */
export const BEFORE = 'before';

/**
 * Daybook as another checkout has it, started by that checkout's own bench, since its commands and tables may
 * differ.
 * @param checkout a directory with its packages installed.
 */
export async function earlierDaybook(checkout: string, keyCount: number): Promise<Target> {
  const url = pathToFileURL(join(resolve(checkout), 'bench/targets/daybook.ts')).href;
  const earlier = (await import(url)) as { daybook: typeof daybook };
  const target = earlier.daybook('strict', keyCount, 'off');
  return {
    ...target,
    name: BEFORE,
    async start(surroundings, purpose) {
      const directory = join(surroundings.directory, BEFORE);
      mkdirSync(directory, { recursive: true });
      const running = await target.start({ ...surroundings, directory }, purpose);
      return { ...running, statePath: null, dialect: null };
    },
  };
}
