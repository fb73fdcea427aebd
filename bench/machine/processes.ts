import { readFileSync } from 'node:fs';
import { type ProcessTree, readMembers } from './cpu.ts';

/** The first process of a tree whose command line contains `text`; null when there is none. */
export function findProcess(tree: ProcessTree, text: string): number | null {
  return readMembers(tree).find((pid) => readOrEmpty(`/proc/${pid}/cmdline`).includes(text)) ?? null;
}

/**
 * The memory of a tree in kB, where each page that processes share is divided among them (PSS): what a
 * machine would have more without it.
 */
export function readPssKb(tree: ProcessTree): number {
  return readMembers(tree).reduce((sum, pid) => {
    const [, pss] = /^Pss: +(\d+) kB/m.exec(readOrEmpty(`/proc/${pid}/smaps_rollup`)) ?? [];
    return sum + Number(pss ?? 0);
  }, 0);
}

/** Empty where the process has ended. */
function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}
