import { type ProcessTree, readMembers, readOrNull } from './cpu.ts';

/** The first process of a tree whose command line contains `text`; null when there is none. */
export function findProcess(tree: ProcessTree, text: string): number | null {
  return readMembers(tree).find((pid) => readOrNull(`/proc/${pid}/cmdline`)?.includes(text)) ?? null;
}

/**
 * The memory of a tree in kB, where each page that processes share is divided among them (PSS): what a
 * machine would have more without it.
 */
export function readPssKb(tree: ProcessTree): number {
  return readMembers(tree).reduce((sum, pid) => {
    const [, pss] = /^Pss: +(\d+) kB/m.exec(readOrNull(`/proc/${pid}/smaps_rollup`) ?? '') ?? [];
    return sum + Number(pss ?? 0);
  }, 0);
}
