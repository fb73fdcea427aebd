import type { Summary } from './summary.ts';
import { figure, table } from './table.ts';
import type { WorkloadName } from './workloads.ts';

/** A budget, and what was measured against it. `measured` is null when the run lacked it. */
export type Goal = {
  name: string;
  measured: number | null;
  bound: 'at most' | 'at least';
  limit: number;
  unit: string;
};

type Pick = (summary: Summary) => number | null;

const asks: Pick = ({ exchangesPerThousand }) => exchangesPerThousand;
const overBare: Pick = ({ cpuOverBare }) => cpuOverBare;
const overNginx: Pick = ({ cpuOverNginx }) => cpuOverNginx;
const aboveBare: Pick = ({ cpuAboveBareUs }) => cpuAboveBareUs;
const postgres: Pick = ({ postgresCpuUs }) => postgresCpuUs;
const p50: Pick = ({ addedP50Ms }) => addedP50Ms;
const p99: Pick = ({ addedP99Ms }) => addedP99Ms;

/** The goals of the relay whose workloads were measured. */
export function relayGoals(summaries: readonly Summary[]): Goal[] {
  const of = (workload: WorkloadName, target: string, pick: Pick): number | null => {
    const summary = summaries.find((each) => each.workload === workload && each.target === target);
    return summary ? pick(summary) : null;
  };
  type Compare = (own: number, other: number) => number;
  const compared = (own: number | null, other: number | null, compare: Compare): number | null =>
    own === null || other === null ? null : compare(own, other);
  const less: Compare = (own, other) => own - other;
  const times: Compare = (own, other) => own / other;

  const goals: (Goal & { workload: WorkloadName })[] = [];
  const atMost = (
    workload: WorkloadName,
    name: string,
    limit: number,
    unit: string,
    measured: number | null,
  ) => goals.push({ workload, name, measured, bound: 'at most', limit, unit });
  const atLeast = (
    workload: WorkloadName,
    name: string,
    limit: number,
    unit: string,
    measured: number | null,
  ) => goals.push({ workload, name, measured, bound: 'at least', limit, unit });
  const own = (workload: WorkloadName, pick: Pick): number | null => of(workload, 'daybook', pick);
  /** Beyond the same figure of another target. */
  const beyond = (workload: WorkloadName, other: string, pick: Pick, target = 'daybook'): number | null =>
    compared(of(workload, target, pick), of(workload, other, pick), less);

  const small = 'small JSON saturated';
  atMost('json', `${small}: server CPU`, 1.5, '× bare', own('json', overBare));
  const p99OverBare = compared(
    own('json', ({ latencyP99Ms }) => latencyP99Ms),
    of('json', 'bare', ({ latencyP99Ms }) => latencyP99Ms),
    times,
  );
  atMost('json', `${small}: p99`, 2, '× bare', p99OverBare);
  atMost('json', `${small}: PostgreSQL CPU`, 8, 'µs/request', own('json', postgres));
  for (const [peer, share] of [
    ['portkey', 1 / 8],
    ['tensorzero', 1 / 2.5],
  ] as const) {
    const over = of('json', peer, ({ cpuOverDaybook }) => cpuOverDaybook);
    // Few have it installed: without a figure the goal isn't listed.
    if (over !== null) atMost('json', `${small}: CPU of server and PostgreSQL`, share, `× ${peer}`, 1 / over);
  }
  atLeast(
    'json',
    `${small}, server and PostgreSQL on one core`,
    10_000,
    'requests/s',
    own('json', ({ perSecond }) => perSecond),
  );
  atMost(
    'json',
    'far from every limit, saturated: asks of the store',
    2,
    'for 1,000 requests',
    own('json', asks),
  );
  atMost(
    'json-rate',
    'far from every limit, 1,000 per second: asks of the store',
    2,
    'for 1,000 requests',
    own('json-rate', asks),
  );
  const fiveLimits = compared(own('json', overBare), own('json-unlimited', overBare), times);
  atMost('json-unlimited', 'five limits: server CPU', 1.1, '× no limits', fiveLimits);
  atMost('near', 'near the end of a hard quota, 8 at a time: added p50', 3, 'ms', own('near', p50));
  atMost(
    'near-rate',
    'near the end of a hard quota, 200 per second: added p50',
    3,
    'ms',
    own('near-rate', p50),
  );
  const slow = (rate: string): string => `upstream of 20 ms, ${rate} per second`;
  atMost(
    'json-20ms-500',
    `${slow('500')}: PostgreSQL CPU`,
    100,
    'µs/request',
    own('json-20ms-500', postgres),
  );
  atMost(
    'json-20ms-500',
    `${slow('500')}, strict: added p50`,
    0.7,
    'ms over nginx',
    beyond('json-20ms-500', 'nginx', p50),
  );
  atMost(
    'json-20ms-500',
    `${slow('500')}, overlapped: added p50`,
    0.1,
    'ms over nginx',
    beyond('json-20ms-500', 'nginx', p50, 'daybook-overlapped'),
  );
  atMost('json-20ms', `${slow('1,000')}: added p50`, 0.7, 'ms over bare', beyond('json-20ms', 'bare', p50));
  atMost('json-20ms', `${slow('1,000')}: added p99`, 4, 'ms over bare', beyond('json-20ms', 'bare', p99));
  atMost('chat-160', 'SSE chunk: server CPU', 1.15, '× bare', own('chat-160', overBare));
  atMost('chat-160', 'SSE chunk: server CPU', 2.5, '× nginx', own('chat-160', overNginx));
  atMost('body-400k', '400 KB body: server CPU', 3.5, '× nginx', own('body-400k', overNginx));
  atMost(
    'body-400k',
    '400 KB body, 8 at a time: p99',
    3,
    'ms over nginx',
    beyond('body-400k', 'nginx', ({ latencyP99Ms }) => latencyP99Ms),
  );
  atMost(
    'idle',
    '2,000 idle streams: RSS',
    70,
    'KB each',
    own('idle', ({ rssPerStreamKb }) => rssPerStreamKb),
  );
  atLeast(
    'idle',
    '2,000 idle streams: flowing',
    0.98,
    'of the chunks',
    own('idle', ({ flowing }) => flowing),
  );
  atMost(
    'refused-missing',
    'refused without a key: server CPU',
    10,
    'µs over bare',
    own('refused-missing', aboveBare),
  );
  atMost(
    'refused-wrong',
    'refused with a wrong key: server CPU',
    10,
    'µs over bare',
    own('refused-wrong', aboveBare),
  );
  atMost(
    'refused-suspended',
    'refused, account suspended: server CPU',
    10,
    'µs over bare',
    own('refused-suspended', aboveBare),
  );
  const measured = new Set(summaries.map(({ workload }) => workload));
  return goals
    .filter(({ workload }) => measured.has(workload))
    .map(({ workload: _workload, ...goal }) => goal);
}

function verdictOn({ measured, bound, limit }: Goal): string {
  if (measured === null) return 'not measured';
  return (bound === 'at most' ? measured <= limit : measured >= limit) ? 'pass' : 'short';
}

export function renderGoals(goals: readonly Goal[]): string {
  const rows = goals.map((goal) => [
    goal.name,
    figure(goal.measured),
    `${goal.bound} ${figure(goal.limit)}`,
    goal.unit,
    verdictOn(goal),
  ]);
  return `\ngoals\n${table(['', 'measured', 'goal', 'unit', ''], rows)}`;
}
