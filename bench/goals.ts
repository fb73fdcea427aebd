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

/**
 * Server CPU of a saturated small JSON call before there were limits, and what they may add; see README.md.
 */
const BEFORE_LIMITS = { us: 68.7, timesBare: 1.68 };
const CPU_GROWTH = 1.1;
const WITH_LIMITS = 'small JSON saturated, limits in force: server CPU';

const asks: Pick = ({ exchangesPerThousand }) => exchangesPerThousand;

/** The budgets of the relay. Several goals of one name are alternatives: one of them is enough. */
export function relayGoals(summaries: readonly Summary[]): Goal[] {
  const goal =
    (workload: WorkloadName, pick: Pick, target = 'daybook') =>
    (name: string, bound: Goal['bound'], limit: number, unit: string): Goal => {
      const summary = summaries.find((each) => each.workload === workload && each.target === target);
      return { name, measured: summary ? pick(summary) : null, bound, limit, unit };
    };
  const atMost = (name: string, limit: number, unit: string, of: ReturnType<typeof goal>): Goal =>
    of(name, 'at most', limit, unit);
  const atLeast = (name: string, limit: number, unit: string, of: ReturnType<typeof goal>): Goal =>
    of(name, 'at least', limit, unit);
  return [
    atMost(
      'small JSON saturated: server CPU',
      1.8,
      '× bare',
      goal('json', ({ cpuOverBare }) => cpuOverBare),
    ),
    atMost(
      'small JSON saturated: Postgres CPU',
      20,
      'µs/request',
      goal('json', ({ postgresCpuUs }) => postgresCpuUs),
    ),
    atLeast(
      'small JSON saturated: rate',
      12_000,
      'requests/s',
      goal('json', ({ perSecond }) => perSecond),
    ),
    atMost(
      WITH_LIMITS,
      CPU_GROWTH * BEFORE_LIMITS.timesBare,
      '× bare',
      goal('json', ({ cpuOverBare }) => cpuOverBare),
    ),
    atMost(
      WITH_LIMITS,
      CPU_GROWTH * BEFORE_LIMITS.us,
      'µs/request',
      goal('json', ({ serverCpuUs }) => serverCpuUs),
    ),
    atMost('far from every limit, saturated: asks of the store', 2, 'for 1,000 requests', goal('json', asks)),
    atMost(
      'far from every limit, 1,000 per second: asks of the store',
      2,
      'for 1,000 requests',
      goal('json-rate', asks),
    ),
    atMost(
      'near the end of a hard quota, 8 at a time: added p50',
      3,
      'ms',
      goal('near', ({ addedP50Ms }) => addedP50Ms),
    ),
    atMost(
      'near the end of a hard quota, 200 per second: added p50',
      3,
      'ms',
      goal('near-rate', ({ addedP50Ms }) => addedP50Ms),
    ),
    atMost(
      'SSE chunk: server CPU',
      2.2,
      '× nginx',
      goal('chat-160', ({ cpuOverNginx }) => cpuOverNginx),
    ),
    atMost(
      'SSE chunk: server CPU',
      1.3,
      '× bare',
      goal('chat-160', ({ cpuOverBare }) => cpuOverBare),
    ),
    atMost(
      '400 KB body: server CPU',
      6.5,
      '× nginx',
      goal('body-400k', ({ cpuOverNginx }) => cpuOverNginx),
    ),
    atMost(
      '400 KB body: server CPU',
      1.5,
      '× bare',
      goal('body-400k', ({ cpuOverBare }) => cpuOverBare),
    ),
    atMost(
      '400 KB body, 8 at a time: p99',
      15,
      'ms',
      goal('body-400k', ({ latencyP99Ms }) => latencyP99Ms),
    ),
    atMost(
      'upstream of 20 ms, strict: added p50',
      1,
      'ms',
      goal('json-20ms', ({ addedP50Ms }) => addedP50Ms),
    ),
    atMost(
      'upstream of 20 ms, overlapped: added p50',
      0.3,
      'ms',
      goal('json-20ms', ({ addedP50Ms }) => addedP50Ms, 'daybook-overlapped'),
    ),
    atMost(
      '2,000 idle streams: RSS',
      70,
      'KB each',
      goal('idle', ({ rssPerStreamKb }) => rssPerStreamKb),
    ),
    atLeast(
      '2,000 idle streams: flowing',
      0.98,
      'of the chunks',
      goal('idle', ({ flowing }) => flowing),
    ),
    atMost(
      'refused without a key: server CPU',
      10,
      'µs over bare',
      goal('refused-missing', ({ cpuAboveBareUs }) => cpuAboveBareUs),
    ),
    atMost(
      'refused with a wrong key: server CPU',
      10,
      'µs over bare',
      goal('refused-wrong', ({ cpuAboveBareUs }) => cpuAboveBareUs),
    ),
    atMost(
      'refused, account suspended: server CPU',
      10,
      'µs over bare',
      goal('refused-suspended', ({ cpuAboveBareUs }) => cpuAboveBareUs),
    ),
  ];
}

/** Whether a goal is met; goals of the same name are alternatives. */
function verdictOn(goal: Goal, goals: readonly Goal[]): string {
  if (goal.measured === null) return 'not measured';
  if (isMet(goal)) return 'pass';
  return goals.some((other) => other.name === goal.name && isMet(other))
    ? 'short, but the alternative passes'
    : 'short';
}

function isMet({ measured, bound, limit }: Goal): boolean {
  if (measured === null) return false;
  return bound === 'at most' ? measured <= limit : measured >= limit;
}

export function renderGoals(goals: readonly Goal[]): string {
  const rows = goals.map((goal) => [
    goal.name,
    figure(goal.measured),
    `${goal.bound} ${figure(goal.limit)}`,
    goal.unit,
    verdictOn(goal, goals),
  ]);
  return `\ngoals\n${table(['', 'measured', 'goal', 'unit', ''], rows)}`;
}
