import { readdirSync, readFileSync } from 'node:fs';

/**
 * CPU time and memory of process trees, read from /proc (Linux). CPU time is what a shared machine
 * still measures well: a neighbour that preempts us costs wall time but not this.
 */

/** The processes that start at `root`, without the trees below `except`. */
export type ProcessTree = { root: number; except: number[] };

export type Usage = { cpuUs: number; rssKb: number };

// USER_HZ is 100 on every Linux build, whatever the kernel's own tick is.
export const TICK_US = 10_000;
const PAGE_KB = 4;

/** What the tree has used so far. Processes that ended are counted once their parent has waited. */
export function readUsage(tree: ProcessTree): Usage {
  const usage = { cpuUs: 0, rssKb: 0 };
  for (const pid of readMembers(tree)) {
    usage.cpuUs += cpuUsOf(pid);
    usage.rssKb += rssKbOf(pid);
  }
  return usage;
}

/** The processes of a tree at this moment. */
export function readMembers({ root, except }: ProcessTree): number[] {
  const children = new Map<number, number[]>();
  for (const name of readdirSync('/proc')) {
    const pid = Number(name);
    if (!Number.isInteger(pid)) continue;
    const parent = statFields(pid)?.[1];
    if (parent === undefined) continue;
    const siblings = children.get(Number(parent));
    if (siblings) siblings.push(pid);
    else children.set(Number(parent), [pid]);
  }
  const found: number[] = [];
  const pending = [root];
  for (let pid = pending.pop(); pid !== undefined; pid = pending.pop()) {
    if (except.includes(pid)) continue;
    found.push(pid);
    pending.push(...(children.get(pid) ?? []));
  }
  return found;
}

/** The fields of /proc/<pid>/stat from the third on; the second, a name, may hold blanks. */
function statFields(pid: number): string[] | null {
  const text = readOrNull(`/proc/${pid}/stat`);
  return text === null ? null : text.slice(text.lastIndexOf(')') + 2).split(' ');
}

function cpuUsOf(pid: number): number {
  const fields = statFields(pid);
  if (!fields) return 0;
  const waitedForUs = (Number(fields[13]) + Number(fields[14])) * TICK_US;
  return threadsUs(pid) + waitedForUs;
}

/** The scheduler's account of each thread, in nanoseconds where `stat` has only ticks of 10 ms. */
function threadsUs(pid: number): number {
  let ns = 0;
  for (const thread of entriesOrNone(`/proc/${pid}/task`)) {
    ns += Number(readOrNull(`/proc/${pid}/task/${thread}/schedstat`)?.split(' ')[0] ?? 0);
  }
  return ns / 1000;
}

function rssKbOf(pid: number): number {
  return Number(readOrNull(`/proc/${pid}/statm`)?.split(' ')[1] ?? 0) * PAGE_KB;
}

/** Null where the process ended between being listed and being read. */
export function readOrNull(path: string): string | null {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return null;
  }
}

function entriesOrNone(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}
