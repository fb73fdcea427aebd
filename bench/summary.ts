import type { JobResult } from './driver/job.ts';
import type { Run } from './run.ts';
import { median } from './median.ts';
import { figure, table } from './table.ts';
import { type Workload, type WorkloadName, WORKLOADS } from './workloads.ts';

/**
 * What the rounds say together: medians, and ratios and differences that were taken within each
 * round before their median, so that what a slow round does to both sides falls out.
 */
export type Summary = {
  workload: WorkloadName;
  target: string;
  /** Requests, or chunks where those are the workload's unit, per second. */
  perSecond: number | null;
  serverCpuUs: number | null;
  postgresCpuUs: number | null;
  /** Share of one CPU that the server used, and its Postgres. */
  serverShare: number | null;
  postgresShare: number | null;
  latencyP50Ms: number | null;
  latencyP99Ms: number | null;
  /** Over `direct`, the upstream's own time left out of both. */
  addedP50Ms: number | null;
  addedP99Ms: number | null;
  chunkDelayP50Us: number | null;
  addedChunkDelayP50Us: number | null;
  /** Server CPU compared with the floors; and what it costs above a bare reply. */
  cpuOverNginx: number | null;
  cpuOverBare: number | null;
  cpuAboveBareUs: number | null;
  rssMb: number | null;
  rssPerStreamKb: number | null;
  /** How often the store was asked about limits, for 1,000 requests. */
  exchangesPerThousand: number | null;
  /** Chunks that came, compared with those that the open streams should have carried. */
  flowing: number | null;
  errors: Record<string, number>;
};

/** One summary per target of this workload, in the order in which they were first measured. */
export function summarize(workloadName: WorkloadName, runs: readonly Run[]): Summary[] {
  const workload: Workload = WORKLOADS[workloadName];
  const names = [...new Set(runs.map(({ target }) => target))];
  return names.map((target) => {
    const own = runs.filter((run) => run.target === target);
    const over = (pick: (result: JobResult) => number | null): number | null =>
      median(own.map(({ result }) => pick(result)));
    const against = (
      other: string,
      pick: (result: JobResult) => number | null,
      compare: (own: number, other: number) => number,
    ): number | null =>
      median(
        own.map(({ round, result }) => {
          const floor = runs.find((run) => run.target === other && run.round === round);
          const values = [pick(result), floor ? pick(floor.result) : null] as const;
          return values[0] === null || values[1] === null ? null : compare(values[0], values[1]);
        }),
      );
    const serverCpu = (result: JobResult): number | null => cpuPerUnit(result, 'server', workload);
    return {
      workload: workloadName,
      target,
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
      cpuAboveBareUs: against('bare-reply', serverCpu, difference),
      rssMb: over(({ trees }) => (trees.server ? trees.server.rssKb / 1024 : null)),
      rssPerStreamKb: workload.load.mode === 'hold' ? over(rssPerStream) : null,
      exchangesPerThousand: over(({ exchanges, requests }) =>
        exchanges === null || requests === 0 ? null : (exchanges * 1000) / requests,
      ),
      flowing: over((result) => flowing(result, workload)),
      errors: sumErrors(own),
    };
  });
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

type Column = { title: string; value: (summary: Summary) => number | null };

const percent = (share: number | null): number | null => (share === null ? null : share * 100);

/** The table of one workload. Columns that hold nothing are left out. */
export function renderSummaries(workloadName: WorkloadName, summaries: readonly Summary[]): string {
  const { unit, title } = WORKLOADS[workloadName];
  const columns: Column[] = [
    { title: `${unit}s/s`, value: ({ perSecond }) => perSecond },
    { title: `CPU µs/${unit}`, value: ({ serverCpuUs }) => serverCpuUs },
    { title: '× nginx', value: ({ cpuOverNginx }) => cpuOverNginx },
    { title: '× bare', value: ({ cpuOverBare }) => cpuOverBare },
    { title: '+ bare µs', value: ({ cpuAboveBareUs }) => cpuAboveBareUs },
    { title: 'Postgres µs', value: ({ postgresCpuUs }) => postgresCpuUs },
    { title: 'CPU %', value: ({ serverShare }) => percent(serverShare) },
    { title: 'Postgres %', value: ({ postgresShare }) => percent(postgresShare) },
    { title: 'p50 ms', value: ({ latencyP50Ms }) => latencyP50Ms },
    { title: 'p99 ms', value: ({ latencyP99Ms }) => latencyP99Ms },
    { title: '+p50 ms', value: ({ addedP50Ms }) => addedP50Ms },
    { title: '+p99 ms', value: ({ addedP99Ms }) => addedP99Ms },
    { title: 'delay µs', value: ({ chunkDelayP50Us }) => chunkDelayP50Us },
    { title: '+delay µs', value: ({ addedChunkDelayP50Us }) => addedChunkDelayP50Us },
    { title: 'RSS MB', value: ({ rssMb }) => rssMb },
    { title: 'KB/stream', value: ({ rssPerStreamKb }) => rssPerStreamKb },
    { title: 'asks/1,000', value: ({ exchangesPerThousand }) => exchangesPerThousand },
    { title: 'flowing %', value: ({ flowing: share }) => percent(share) },
  ];
  const used = columns.filter(({ value }) => summaries.some((summary) => value(summary) !== null));
  const rows = summaries.map((summary) => [
    summary.target,
    ...used.map(({ value }) => figure(value(summary))),
    describeErrors(summary.errors),
  ]);
  return `\n${workloadName}: ${title}\n${table(['', ...used.map((column) => column.title), 'errors'], rows)}`;
}

function describeErrors(errors: Record<string, number>): string {
  const list = Object.entries(errors).map(([reason, count]) => `${count} × ${reason}`);
  return list.length === 0 ? '0' : list.join(', ');
}
