import { cpus } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { attachStore } from '#db/postgres/store.ts';
import type { JobResult } from './driver/job.ts';
import { closeViewers, makeViewerKeys, openViewers } from './feed/watching.ts';
import type { Goal } from './goals.ts';
import type { ProcessTree } from './machine/cpu.ts';
import { measuredQuietly, type Watched } from './machine/neighbors.ts';
import { findPinning } from './machine/pinning.ts';
import { findProcess, readPssKb } from './machine/processes.ts';
import { type Stage, startUpstream } from './relay.ts';
import { driveSteadily } from './run.ts';
import type { Settings } from './settings.ts';
import { median } from './median.ts';
import { figure, spread, table } from './table.ts';
import { daybook } from './targets/daybook.ts';
import { BARE, DIRECT } from './targets/plain.ts';
import type { Running, Surroundings } from './targets/target.ts';

/** So many calls a second, with the dashboard's live feed open or closed. */
type Rung = { perSecond: number; viewers: 0 | 1 };

/** One rung in one round. */
export type LadderRun = Rung & {
  round: number;
  /** CPU ms for each call; at no calls, percent of one CPU. By process, PostgreSQL's sessions among them. */
  cpu: Record<string, number>;
  /** CPU ms for each call of a bare proxy at the same rate in this round; null at no calls. */
  bareMs: number | null;
  /** Proportional set size of all processes, in MB. */
  pssMb: number;
  /** Over the upstream itself at the same rate in this round; null at no calls. */
  addedP50Ms: number | null;
  addedP99Ms: number | null;
  errors: Record<string, number>;
} & Watched;

export type LadderReport = { ladder: LadderRun[]; goals: Goal[] };

/** Few calls need more time, as do tasks that run once in a few seconds. */
const MEASURED_CALLS_MIN = 40;
const SECS_MIN = 10;
const SECS_MAX = 30;
const WARMUP_SECS = 3;
const KEYS = 100;
/** The first seconds of a server and its worker are no steady state. */
const STEADY_MS = 5_000;

/** The parts of an installation that make up its whole cost; other entries of `cpu` are parts of these. */
const WHOLE = ['server', 'worker', 'postgres'] as const;

/**
 * Measures a whole installation (server, worker and PostgreSQL) from no calls to a thousand a second, behind
 * an upstream that takes 20 ms: what a call costs each process, and how much later its reply arrives. A run
 * beside a busy neighbor is repeated as often as there are rounds.
 */
export async function benchLadder(
  settings: Settings,
  { directory, cleanup, signal }: Stage,
): Promise<LadderReport> {
  const pinning = findPinning();
  console.log(`Node ${process.versions.node} on ${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown'}`);
  console.log(pinning.note);
  const surroundings = { directory, pinning, upstreamPort: await startUpstream(directory, pinning, cleanup) };
  const direct = await DIRECT.start(surroundings, 'load');
  const bare = await BARE.start(surroundings, 'load');
  cleanup.defer(() => bare.stop());
  const running = await daybook('strict', KEYS, 'on').start(surroundings, 'load');
  cleanup.defer(() => running.stop());
  if (settings.warmupSecs === null) await sleep(STEADY_MS);
  const secrets = await makeViewerKeys(running.dataDir ?? '', 1);
  const rungs = settings.rates.flatMap((perSecond): Rung[] => [
    { perSecond, viewers: 0 },
    { perSecond, viewers: 1 },
  ]);
  const ladder: LadderRun[] = [];
  for (let round = 0; round < settings.rounds; round++) {
    for (const rung of round % 2 === 0 ? rungs : rungs.toReversed()) {
      signal.throwIfAborted();
      const means = { surroundings, settings, signal, secrets };
      const run = await measuredQuietly(
        { attempts: settings.rounds, neighborsMax: settings.neighborsMax },
        [databaseOf(running)],
        () => measure(rung, round, { running, direct, bare }, means),
      );
      ladder.push(run);
      console.log(renderLadder([run]).split('\n').at(-1));
    }
  }
  return { ladder, goals: ladderGoals(ladder) };
}

/** What is measured, and what it is compared with. */
type Servers = { running: Running; direct: Running; bare: Running };
type Means = { surroundings: Surroundings; settings: Settings; signal: AbortSignal; secrets: string[] };

async function measure(
  rung: Rung,
  round: number,
  { running, direct, bare }: Servers,
  means: Means,
): Promise<Omit<LadderRun, keyof Watched>> {
  const { settings, surroundings } = means;
  const secs = Math.min(SECS_MAX, Math.max(SECS_MIN, settings.secs, MEASURED_CALLS_MIN / rung.perSecond));
  const during = { warmupSecs: settings.warmupSecs ?? WARMUP_SECS, secs: Math.min(secs, settings.secs * 3) };
  const viewers = rung.viewers > 0 ? await openViewers(surroundings, running.port, means.secrets, 1) : null;
  try {
    const floor = await drive(direct, rung, { ...during, trees: {} }, means);
    const bareMs = rung.perSecond === 0 ? null : await bareCost(bare, rung, during, means);
    const trees = await treesOf(running);
    const measured = await drive(running, rung, { ...during, trees }, means);
    const of = (cpuUs: number): number =>
      rung.perSecond === 0 ? (cpuUs / 1e6 / measured.secs) * 100 : cpuUs / 1_000 / measured.requests;
    const cpu = Object.fromEntries(
      Object.entries(measured.trees).map(([name, { cpuUs }]) => [name, of(cpuUs)]),
    );
    return {
      ...rung,
      round,
      cpu,
      bareMs,
      pssMb: WHOLE.reduce((sum, name) => sum + readPssKb(trees[name] as ProcessTree), 0) / 1024,
      addedP50Ms: added(measured, floor, 'p50'),
      addedP99Ms: added(measured, floor, 'p99'),
      errors: measured.errors,
    };
  } finally {
    if (viewers) closeViewers(viewers);
  }
}

async function bareCost(
  bare: Running,
  rung: Rung,
  during: { warmupSecs: number; secs: number },
  means: Means,
): Promise<number> {
  if (bare.serverPid === null) throw new Error('the bare proxy has no process of its own');
  const trees = { bare: { root: bare.serverPid, except: [] } };
  const { requests, trees: used } = await drive(bare, rung, { ...during, trees }, means);
  return (used['bare']?.cpuUs ?? 0) / 1_000 / requests;
}

function databaseOf({ postgresPid }: Running): ProcessTree {
  if (postgresPid === null) throw new Error('the installation has no PostgreSQL of its own');
  return { root: postgresPid, except: [] };
}

function drive(
  running: Running,
  { perSecond }: Rung,
  during: Parameters<typeof driveSteadily>[2],
  means: Means,
): Promise<JobResult> {
  return driveSteadily(running, perSecond, during, means, 'json-20ms');
}

function added(own: JobResult, direct: JobResult, quantile: 'p50' | 'p99'): number | null {
  const [mine, floor] = [own.overheadUs[quantile], direct.overheadUs[quantile]];
  return mine === null || floor === null ? null : (mine - floor) / 1_000;
}

/** The installation's processes, and PostgreSQL's sessions by the names of their applications. */
async function treesOf(running: Running): Promise<Record<string, ProcessTree>> {
  const { serverPid, dataDir } = running;
  const postgres = databaseOf(running);
  if (serverPid === null || dataDir === null) throw new Error('the installation has no processes of its own');
  const server = { root: serverPid, except: [postgres.root] };
  const worker = findProcess(server, 'worker/main.ts');
  if (worker === null) throw new Error('the installation runs no worker');
  const trees: Record<string, ProcessTree> = {
    server: { root: serverPid, except: [postgres.root, worker] },
    worker: { root: worker, except: [] },
    postgres,
  };
  for (const { pid, name } of await readSessions(dataDir)) {
    let entry = `pg ${name}`;
    for (let count = 2; entry in trees; count++) entry = `pg ${name} ${count}`;
    trees[entry] = { root: pid, except: [] };
  }
  return trees;
}

async function readSessions(dataDir: string): Promise<{ pid: number; name: string }[]> {
  const client = new Client((await attachStore({ DAYBOOK_DATA: dataDir })).config('owner'));
  await client.connect();
  try {
    const { rows } = await client.query<{ pid: number; name: string }>(
      `select pid, coalesce(nullif(application_name, ''), backend_type) as name from pg_stat_activity
        where pid <> pg_backend_pid() order by pid`,
    );
    return rows;
  } finally {
    await client.end();
  }
}

/** The table of the ladder: medians over the rounds that no neighbor disturbed, with their spread. */
export function renderLadder(runs: readonly LadderRun[]): string {
  const rungs = runs.filter((run, index) => runs.findIndex((other) => isSame(run, other)) === index);
  const rows = rungs.map((rung) => {
    const all = runs.filter((run) => isSame(run, rung));
    const quiet = all.filter(({ isQuiet }) => isQuiet);
    const name = `${rung.perSecond} calls/s${rung.viewers ? ', dashboard open' : ''}`;
    const values = (pick: (run: LadderRun) => number | null): string => spread(quiet.map(pick));
    if (quiet.length === 0) {
      const least = Math.min(...all.map(({ neighbors }) => neighbors));
      return [name, `busy: others used ${figure(least * 100)} % of a CPU`];
    }
    const errors = all.flatMap((run) =>
      Object.entries(run.errors).map(([error, count]) => `${count} × ${error}`),
    );
    return [
      name,
      values(whole),
      ...WHOLE.map((part) => values(({ cpu }) => cpu[part] ?? null)),
      values(({ bareMs }) => bareMs),
      values(({ addedP50Ms }) => addedP50Ms),
      values(({ addedP99Ms }) => addedP99Ms),
      values(({ pssMb }) => pssMb),
      [dearest(quiet), ...errors].join('; '),
    ];
  });
  const head = [
    'CPU ms per call; idle: % of a CPU',
    'whole',
    ...WHOLE,
    'bare',
    '+p50 ms',
    '+p99 ms',
    'PSS MB',
    'dearest sessions of PostgreSQL',
  ];
  return `\n${table(head, rows)}`;
}

/** The dearest of PostgreSQL's sessions. */
function dearest(runs: readonly LadderRun[]): string {
  const names = [...new Set(runs.flatMap(({ cpu }) => Object.keys(cpu)))].filter((name) =>
    name.startsWith('pg '),
  );
  return names
    .map((name) => ({ name, cost: median(runs.map(({ cpu }) => cpu[name] ?? null)) ?? 0 }))
    .toSorted((left, right) => right.cost - left.cost)
    .slice(0, 3)
    .map(({ name, cost }) => `${name.slice(3)} ${figure(cost)}`)
    .join(', ');
}

const isSame = (left: Rung, right: Rung): boolean =>
  left.perSecond === right.perSecond && left.viewers === right.viewers;
const whole = ({ cpu }: LadderRun): number => WHOLE.reduce((sum, part) => sum + (cpu[part] ?? 0), 0);

function ladderGoals(runs: readonly LadderRun[]): Goal[] {
  const at = (perSecond: number, pick: (run: LadderRun) => number | null): number | null =>
    median(runs.filter((run) => isSame(run, { perSecond, viewers: 0 }) && run.isQuiet).map(pick));
  const cost = (perSecond: number, limit: number): Goal => ({
    name: `whole installation, ${perSecond} calls/s: CPU per call`,
    measured: at(perSecond, whole),
    bound: 'at most',
    limit,
    unit: 'ms',
  });
  return [
    { name: 'idle: CPU', measured: at(0, whole), bound: 'at most', limit: 0.3, unit: '% of a CPU' },
    {
      name: 'idle: memory',
      measured: at(0, ({ pssMb }) => pssMb),
      bound: 'at most',
      limit: 300,
      unit: 'MB PSS',
    },
    cost(10, 1.5),
    cost(100, 0.8),
    cost(500, 0.5),
    {
      name: 'upstream of 20 ms, 500 calls/s: added p50',
      measured: at(500, ({ addedP50Ms }) => addedP50Ms),
      bound: 'at most',
      limit: 0.7,
      unit: 'ms',
    },
  ];
}
