import { spawnSync } from 'node:child_process';

/** Who runs where: what is measured on one CPU, what measures it on the other. */
export type Side = 'gateway' | 'load';

export type Pinning = {
  /** What to put before a command so that it, and all it starts, stays on its side's CPU. */
  prefix: (side: Side) => string[];
  /** One line for the reader, in either case. */
  note: string;
};

const CPU_OF: Record<Side, string> = { gateway: '0', load: '1' };

/** Pins by `taskset` where that works for both CPUs, else not at all. */
export function findPinning(): Pinning {
  const works = Object.values(CPU_OF).every((cpu) => spawnSync('taskset', ['-c', cpu, 'true']).status === 0);
  if (!works) {
    return {
      prefix: () => [],
      note: 'not pinned: taskset with CPUs 0 and 1 is not available here, so the figures scatter more',
    };
  }
  return {
    prefix: (side) => ['taskset', '-c', CPU_OF[side]],
    note: `gateway and Postgres on CPU ${CPU_OF.gateway}, upstream and driver on CPU ${CPU_OF.load}`,
  };
}
