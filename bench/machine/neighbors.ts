import { readFileSync } from 'node:fs';
import { type ProcessTree, readUsage, TICK_US } from './cpu.ts';

/**
 * What others on this machine use while something is measured. It raises every figure: caches are shared, and
 * time at the hypervisor's disposal is not ours.
 */

/** What was measured beside others: the share of one CPU that they used, and whether the figures count. */
export type Watched = { neighbors: number; isQuiet: boolean };

/**
 * Measures again while neighbors use more than `neighborsMax` of a CPU, `attempts` times at most.
 * @param own as in `watchNeighbors`.
 */
export async function measuredQuietly<T>(
  { attempts, neighborsMax }: { attempts: number; neighborsMax: number },
  own: readonly ProcessTree[],
  measure: () => Promise<T>,
): Promise<T & Watched> {
  for (let attempt = 1; ; attempt++) {
    const readNeighbors = watchNeighbors(own);
    const measured = await measure();
    const neighbors = readNeighbors();
    const isQuiet = neighbors <= neighborsMax;
    if (isQuiet || attempt >= attempts) return { ...measured, neighbors, isQuiet };
  }
}

/** Fields of /proc/stat: user, nice, system, irq, softirq and steal; without idle, iowait and guests'. */
const BUSY_FIELDS = [1, 2, 3, 6, 7, 8] as const;

/**
 * Begins to watch.
 * @param own the trees of the bench itself, besides this process and all below it.
 * @returns the share of one CPU that others have used since.
 */
function watchNeighbors(own: readonly ProcessTree[]): () => number {
  const trees = [...own, { root: process.pid, except: own.map(({ root }) => root) }];
  const read = (): { busyUs: number; ownUs: number; atMs: number } => ({
    busyUs: busyUs(),
    ownUs: trees.reduce((sum, tree) => sum + readUsage(tree).cpuUs, 0),
    atMs: performance.now(),
  });
  const before = read();
  return () => {
    const now = read();
    const othersUs = now.busyUs - before.busyUs - (now.ownUs - before.ownUs);
    return Math.max(0, othersUs / 1_000 / (now.atMs - before.atMs));
  };
}

function busyUs(): number {
  const fields = readFileSync('/proc/stat', 'latin1').split('\n', 1)[0]?.split(/ +/) ?? [];
  return BUSY_FIELDS.reduce((sum, field) => sum + Number(fields[field] ?? 0), 0) * TICK_US;
}
