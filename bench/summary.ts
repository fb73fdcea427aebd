import type { JobResult } from './driver/job.ts';
import type { Run } from './run.ts';
import { median } from './median.ts';
import { spread, table } from './table.ts';
import { TARGETS } from './settings.ts';
import { BEFORE } from './targets/earlier.ts';
import { type Workload, type WorkloadName, WORKLOADS } from './workloads.ts';

/** All but other gateways. */
const OWN_TARGETS: readonly string[] = [...TARGETS, BEFORE];

/** A figure of a target under a workload; null where the target or the workload has none. */
type Figures<T> = {
  /** Requests, or chunks where those are the workload's unit, per second. */
  perSecond: T;
  serverCpuUs: T;
  postgresCpuUs: T;
  /** Share of one CPU that the server used, and its Postgres. */
  serverShare: T;
  postgresShare: T;
  latencyP50Ms: T;
  latencyP99Ms: T;
  /** Over `direct`, the upstream's own time left out of both. */
  addedP50Ms: T;
  addedP99Ms: T;
  chunkDelayP50Us: T;
  addedChunkDelayP50Us: T;
  /** Server CPU compared with the floors and with an earlier commit; and what it costs above a bare reply. */
  cpuOverNginx: T;
  cpuOverBare: T;
  cpuOverBefore: T;
  /** Of other gateways, compared with Daybook's server and Postgres together. */
  cpuOverDaybook: T;
  cpuAboveBareUs: T;
  rssMb: T;
  rssPerStreamKb: T;
  /** How often the store was asked about limits, for 1,000 requests. */
  exchangesPerThousand: T;
  /** Chunks that came, compared with those that the open streams should have carried. */
  flowing: T;
};

type FigureName = keyof Figures<unknown>;

/**
 * The rounds together: medians over those that no neighbor disturbed. Ratios and differences were taken
 * within each round before their median, so that the effect of a slow round on both sides cancels out.
 */
export type Summary = Figures<number | null> & {
  workload: WorkloadName;
  target: string;
  /** The figures of each round. */
  rounds: Figures<(number | null)[]>;
  /** Rounds beside a busy neighbor, which don't count. */
  disturbed: number;
  errors: Record<string, number>;
};

/** One summary per target of this workload, in the order in which they were first measured. */
export function summarize(workloadName: WorkloadName, runs: readonly Run[]): Summary[] {
  const workload: Workload = WORKLOADS[workloadName];
  const names = [...new Set(runs.map(({ target }) => target))];
  const quiet = runs.filter(({ isQuiet }) => isQuiet);
  return names.map((target) => {
    const all = runs.filter((run) => run.target === target);
    const rounds = figuresOf(target, workload, quiet);
    const medians = Object.fromEntries(
      Object.entries(rounds).map(([name, values]) => [name, median(values)]),
    ) as Figures<number | null>;
    return {
      workload: workloadName,
      target,
      ...medians,
      rounds,
      disturbed: all.filter(({ isQuiet }) => !isQuiet).length,
      errors: sumErrors(all),
    };
  });
}

function figuresOf(target: string, workload: Workload, runs: readonly Run[]): Figures<(number | null)[]> {
  const own = runs.filter((run) => run.target === target);
  const over = (pick: (result: JobResult) => number | null) => own.map(({ result }) => pick(result));
  const against = (
    other: string,
    pick: (result: JobResult) => number | null,
    compare: (own: number, other: number) => number,
  ): (number | null)[] =>
    own.map(({ round, result }) => {
      const floor = runs.find((run) => run.target === other && run.round === round);
      const values = [pick(result), floor ? pick(floor.result) : null] as const;
      return values[0] === null || values[1] === null ? null : compare(values[0], values[1]);
    });
  const serverCpu = (result: JobResult): number | null => cpuPerUnit(result, 'server', workload);
  return {
    perSecond: over((result) => units(result, workload) / result.secs),
    serverCpuUs: over(serverCpu),
    postgresCpuUs: over((result) => cpuPerUnit(result, 'postgres', workload)),
    serverShare: over((result) => cpuShare(result, 'server')),
    postgresShare: over((result) => cpuShare(result, 'postgres')),
    latencyP50Ms: over(({ latencyUs }) => inMs(latencyUs.p50)),
    latencyP99Ms: over(({ latencyUs }) => inMs(latencyUs.p99)),
    addedP50Ms: against('direct', ({ overheadUs }) => inMs(overheadUs.p50), difference),
    addedP99Ms: against('direct', ({ overheadUs }) => inMs(overheadUs.p99), difference),
    chunkDelayP50Us: over(({ chunkDelayUs }) => chunkDelayUs.p50),
    addedChunkDelayP50Us: against('direct', ({ chunkDelayUs }) => chunkDelayUs.p50, difference),
    cpuOverNginx: against('nginx', serverCpu, ratio),
    cpuOverBare: against('bare', serverCpu, ratio),
    cpuOverBefore: target === BEFORE ? [] : against(BEFORE, serverCpu, ratio),
    cpuOverDaybook: OWN_TARGETS.includes(target)
      ? []
      : against('daybook', (result) => wholeCpu(result, workload), ratio),
    cpuAboveBareUs: against('bare-reply', serverCpu, difference),
    rssMb: over(({ trees }) => (trees.server ? trees.server.rssKb / 1024 : null)),
    rssPerStreamKb: workload.load.mode === 'hold' ? over(rssPerStream) : [],
    exchangesPerThousand: over(({ exchanges, requests }) =>
      exchanges === null || requests === 0 ? null : (exchanges * 1000) / requests,
    ),
    flowing: over((result) => flowing(result, workload)),
  };
}

function ratio(mine: number, other: number): number {
  return mine / other;
}

function difference(mine: number, other: number): number {
  return mine - other;
}

function units(result: JobResult, { unit }: Workload): number {
  return unit === 'chunk' ? result.chunks : result.requests;
}

function cpuPerUnit(result: JobResult, tree: 'server' | 'postgres', workload: Workload): number | null {
  const usage = result.trees[tree];
  const count = units(result, workload);
  return usage && count > 0 ? usage.cpuUs / count : null;
}

/** Of the server and of its Postgres, where it has one. */
function wholeCpu(result: JobResult, workload: Workload): number | null {
  const server = cpuPerUnit(result, 'server', workload);
  return server === null ? null : server + (cpuPerUnit(result, 'postgres', workload) ?? 0);
}

function cpuShare(result: JobResult, tree: 'server' | 'postgres'): number | null {
  const usage = result.trees[tree];
  return usage ? usage.cpuUs / 1e6 / result.secs : null;
}

function inMs(us: number | null): number | null {
  return us === null ? null : us / 1000;
}

function rssPerStream({ trees, held }: JobResult): number | null {
  return trees.server && held > 0 ? (trees.server.rssKb - trees.server.rssBeforeKb) / held : null;
}

function flowing(result: JobResult, { load, chunkIntervalMs }: Workload): number | null {
  if (load.mode !== 'hold' || chunkIntervalMs === null) return null;
  // Of the streams that were asked for, not of those that are open: one that is queued or lost does not flow.
  return result.chunks / ((load.streams * result.secs * 1000) / chunkIntervalMs);
}

function sumErrors(runs: readonly Run[]): Record<string, number> {
  const sum: Record<string, number> = {};
  for (const { result } of runs) {
    for (const [reason, count] of Object.entries(result.errors)) sum[reason] = (sum[reason] ?? 0) + count;
  }
  return sum;
}

type Column = { title: string; of: FigureName; show?: typeof spread };

const percent: typeof spread = (values) =>
  spread(values.map((share) => (share === null ? null : share * 100)));

/** The table of one workload. Columns that hold nothing are left out. */
export function renderSummaries(workloadName: WorkloadName, summaries: readonly Summary[]): string {
  const { unit, title } = WORKLOADS[workloadName];
  const columns: Column[] = [
    { title: `${unit}s/s`, of: 'perSecond' },
    { title: `CPU µs/${unit}`, of: 'serverCpuUs' },
    { title: '× nginx', of: 'cpuOverNginx' },
    { title: '× bare', of: 'cpuOverBare' },
    { title: '× before', of: 'cpuOverBefore' },
    { title: '× daybook', of: 'cpuOverDaybook' },
    { title: '+ bare µs', of: 'cpuAboveBareUs' },
    { title: 'Postgres µs', of: 'postgresCpuUs' },
    { title: 'CPU %', of: 'serverShare', show: percent },
    { title: 'Postgres %', of: 'postgresShare', show: percent },
    { title: 'p50 ms', of: 'latencyP50Ms' },
    { title: 'p99 ms', of: 'latencyP99Ms' },
    { title: '+p50 ms', of: 'addedP50Ms' },
    { title: '+p99 ms', of: 'addedP99Ms' },
    { title: 'delay µs', of: 'chunkDelayP50Us' },
    { title: '+delay µs', of: 'addedChunkDelayP50Us' },
    { title: 'RSS MB', of: 'rssMb' },
    { title: 'KB/stream', of: 'rssPerStreamKb' },
    { title: 'asks/1,000', of: 'exchangesPerThousand' },
    { title: 'flowing %', of: 'flowing', show: percent },
  ];
  const used = columns.filter(({ of }) => summaries.some((summary) => summary[of] !== null));
  const rows = summaries.map((summary) => [
    summary.target,
    ...used.map(({ of, show = spread }) => show(summary.rounds[of])),
    describeErrors(summary.errors),
    summary.disturbed === 0 ? '' : `${summary.disturbed} beside a busy neighbor`,
  ]);
  const head = ['', ...used.map((column) => column.title), 'errors', ''];
  return `\n${workloadName}: ${title}\n${table(head, rows)}`;
}

function describeErrors(errors: Record<string, number>): string {
  const list = Object.entries(errors).map(([reason, count]) => `${count} × ${reason}`);
  return list.length === 0 ? '0' : list.join(', ');
}
