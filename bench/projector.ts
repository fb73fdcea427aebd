import { join } from 'node:path';
import { Client } from 'pg';
import { type Store, withTimeout } from '#db/postgres/connect.ts';
import { startEmbedded } from '#db/postgres/embedded/embedded.ts';
import { registerInstance, retireInstance } from '#db/instances/instance.ts';
import { migrate } from '#db/schema/migrate.ts';
import { compare, isEqual } from '#db/projections/compare.ts';
import { projectPage, PROJECTING, startEpoch } from '#db/projections/project.ts';
import { readEventPage } from '#db/projections/page/page.ts';
import { PROJECTIONS } from '#db/projections/projections.ts';
import { projectTask } from '../worker/tasks/project.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import { appendBacklog, appendCalls, type Backlog, defineTenants } from './backlog.ts';
import type { Goal } from './goals.ts';
import { monotonicUs } from './machine/clock.ts';
import { readUsage } from './machine/cpu.ts';
import { postmasterOf } from './machine/postmaster.ts';
import type { Stage } from './relay.ts';
import type { Settings } from './settings.ts';
import { median } from './median.ts';
import { figure, table } from './table.ts';

/** How long appends of ten events took, at a steady pace that leaves the machine room. */
type Latency = { p50Ms: number; p99Ms: number; perSecond: number };

/**
 * What one round found: the same load alone, beside a projector that keeps up, and beside one with a backlog.
 */
export type ProjectorRound = {
  alone: Latency;
  beside: Latency;
  besideBacklog: Latency;
  /** Of the projector that keeps up: Postgres' CPU for each event, appends left out. */
  livePostgresCpuUs: number;
};

export type ProjectorReport = {
  catchUp: {
    events: number;
    perSecond: number;
    postgresCpuUs: number;
    perProjection: Record<string, number>;
  };
  /**
   * Whether every projection then was as a replay of the log, row by row; and how long the comparison took.
   */
  equal: { isEqual: boolean; rows: number; secs: number };
  projectorRounds: ProjectorRound[];
  goals: Goal[];
};

const STATEMENT_TIMEOUT_MS = 120_000;
const BATCH_CALLS = 5;
const BATCH_EVERY_MS = 10;
/** A backlog that lasts as long as the load beside it. */
const BACKLOG_EVENTS_PER_SEC = 40_000;

/**
 * Measures the projector: its throughput with a backlog, the correctness of the result, and its cost
 * for concurrent appends.
 */
export async function benchProjector(
  settings: Settings,
  { directory, signal }: Stage,
): Promise<ProjectorReport> {
  const dataDir = join(directory, 'projector');
  const store = await startEmbedded({ dataDir, log: () => {} });
  try {
    await migrate(store);
    const postmaster = postmasterOf(dataDir);
    if (postmaster === null) throw new Error(`no Postgres runs in ${dataDir}`);
    const postgresUs = (): number => readUsage({ root: postmaster, except: [] }).cpuUs;
    const writer = await connect(store, 'relay');
    const instance = await registerInstance(writer, 'bench-projector');
    const tenants = await defineTenants(writer, instance);
    const backlog: Backlog = { client: writer, instance, tenants, batchNo: 1 };
    await appendBacklog(backlog, settings.events, signal);

    const projector = await connect(store, 'worker');
    const catchUp = await measureCatchUp(projector, postgresUs);
    const auditor = await connect(store, 'auditor');
    const equal = await checkEqual(auditor);
    await auditor.end();

    const projectorRounds: ProjectorRound[] = [];
    for (let round = 0; round < settings.rounds; round++) {
      signal.throwIfAborted();
      const before = postgresUs();
      const alone = await load(backlog, settings.secs);
      const aloneUs = postgresUs() - before;
      await projectAll(projector);
      const beforeLive = postgresUs();
      const beside = await withProjector(store, () => load(backlog, settings.secs));
      const liveUs = postgresUs() - beforeLive;
      await appendBacklog(backlog, settings.secs * BACKLOG_EVENTS_PER_SEC, signal);
      const besideBacklog = await withProjector(store, () => load(backlog, settings.secs));
      await projectAll(projector);
      projectorRounds.push({
        alone,
        beside,
        besideBacklog,
        livePostgresCpuUs: (liveUs - aloneUs) / (beside.perSecond * settings.secs),
      });
    }
    await retireInstance(writer, instance);
    await Promise.all([writer.end(), projector.end()]);
    return { catchUp, equal, projectorRounds, goals: projectorGoals(catchUp.perSecond, projectorRounds) };
  } finally {
    await store.stop();
  }
}

async function connect(store: Store, role: 'relay' | 'worker' | 'auditor'): Promise<Client> {
  const client = new Client(withTimeout(store.config(role), STATEMENT_TIMEOUT_MS));
  await client.connect();
  return client;
}

/** Projects until nothing is left. @returns how many events. */
async function projectAll(client: Client, projections = PROJECTIONS): Promise<number> {
  const epoch = await startEpoch(client);
  let events = 0;
  for (;;) {
    const page = await projectPage(client, { projections, epoch });
    if (page.kind !== 'projected')
      throw new Error(`unexpected page: ${page.kind}, although no other projector runs`);
    if (page.parked.length + page.broken.length > 0)
      throw new Error(`not all could be projected: ${JSON.stringify([page.parked[0], page.broken])}`);
    if (page.range.upTo === page.range.after) return events;
    events += page.range.upTo - page.range.after;
  }
}

async function measureCatchUp(client: Client, postgresUs: () => number): Promise<ProjectorReport['catchUp']> {
  // Each projection alone: applied, timed and rolled back.
  const perProjection: Record<string, number> = {};
  for (const projection of PROJECTIONS) perProjection[projection.name] = await timeAlone(client, projection);
  const before = { cpu: postgresUs(), us: monotonicUs() };
  const events = await projectAll(client);
  const secs = (monotonicUs() - before.us) / 1e6;
  return {
    events,
    perSecond: events / secs,
    postgresCpuUs: (postgresUs() - before.cpu) / events,
    perProjection,
  };
}

/** Events per second of one projection over the first of the log. */
async function timeAlone(client: Client, projection: (typeof PROJECTIONS)[number]): Promise<number> {
  await client.query(`begin; ${PROJECTING}; set local search_path = projection, daybook`);
  const startedUs = monotonicUs();
  const { rows } = await client.query<{ head: string }>('select daybook.head(0::smallint) as head');
  const upTo = Math.min(50_000, Number(rows[0]?.head));
  await projection.apply(client, await readEventPage(client, { after: 0, upTo }));
  const secs = (monotonicUs() - startedUs) / 1e6;
  await client.query('rollback');
  return upTo / secs;
}

async function checkEqual(client: Client): Promise<ProjectorReport['equal']> {
  const startedUs = monotonicUs();
  let rows = 0;
  let equal = true;
  for (const projection of PROJECTIONS) {
    const found = await compare(client, projection);
    rows += found.rows;
    equal &&= isEqual(found);
  }
  return { isEqual: equal, rows, secs: (monotonicUs() - startedUs) / 1e6 };
}

/** Runs the worker's own projector while something else is measured. */
async function withProjector<T>(store: Store, work: () => Promise<T>): Promise<T> {
  const ending = new AbortController();
  const projecting = projectTask({
    projections: PROJECTIONS,
    connect: () => connect(store, 'worker'),
    signal: ending.signal,
    log: createLogger('warn'),
    reports: { failed: () => Promise.resolve(), succeeded: () => Promise.resolve() },
    onOutdated: (names) => Promise.reject(new Error(`to be rebuilt: ${names.join()}`)),
  });
  try {
    return await work();
  } finally {
    ending.abort();
    await projecting;
  }
}

/** Appends at a steady pace. */
async function load(backlog: Backlog, secs: number): Promise<Latency> {
  const startedMs = performance.now();
  const durationsMs: number[] = [];
  while (performance.now() - startedMs < secs * 1000) {
    const beganMs = performance.now();
    await appendCalls(backlog, BATCH_CALLS);
    durationsMs.push(performance.now() - beganMs);
    await new Promise((resolve) => setTimeout(resolve, BATCH_EVERY_MS));
  }
  const tookSecs = (performance.now() - startedMs) / 1000;
  const sorted = durationsMs.toSorted((left, right) => left - right);
  const at = (share: number): number => sorted[Math.floor(sorted.length * share)] ?? 0;
  return { p50Ms: at(0.5), p99Ms: at(0.99), perSecond: (sorted.length * BATCH_CALLS * 2) / tookSecs };
}

/** The tables of the projector's bench: medians over the rounds. */
export function renderProjector({ catchUp, equal, projectorRounds }: ProjectorReport): string {
  const row = (name: string, pick: (round: ProjectorRound) => Latency): string[] => {
    const over = (of: (latency: Latency) => number): number | null =>
      median(projectorRounds.map((round) => of(pick(round))));
    const added = median(projectorRounds.map((round) => pick(round).p50Ms / round.alone.p50Ms));
    return [
      name,
      figure(over(({ p50Ms }) => p50Ms)),
      figure(over(({ p99Ms }) => p99Ms)),
      figure(over(({ perSecond }) => perSecond)),
      figure(added),
    ];
  };
  const alone = Object.entries(catchUp.perProjection).map(([name, perSecond]) => [
    `  ${name} by itself`,
    figure(perSecond),
    '',
  ]);
  const liveCpuUs = median(projectorRounds.map(({ livePostgresCpuUs }) => livePostgresCpuUs));
  return [
    '',
    table(
      ['catching up', 'events/s', 'Postgres µs/event'],
      [
        [`all, ${figure(catchUp.events)} events`, figure(catchUp.perSecond), figure(catchUp.postgresCpuUs)],
        ...alone,
      ],
    ),
    '',
    `compared with a replay: ${equal.isEqual ? 'equal' : 'NOT EQUAL'}, ` +
      `${figure(equal.rows)} rows in ${figure(equal.secs)} s`,
    '',
    table(
      ['appends, ten events every 10 ms', 'p50 ms', 'p99 ms', 'events/s', '× alone, p50'],
      [
        row('without a projector', ({ alone: latency }) => latency),
        row('beside one that keeps up', ({ beside }) => beside),
        row('beside one with a backlog', ({ besideBacklog }) => besideBacklog),
      ],
    ),
    `a projector that keeps up costs ${figure(liveCpuUs)} µs of Postgres per event`,
  ].join('\n');
}

function projectorGoals(perSecond: number, rounds: readonly ProjectorRound[]): Goal[] {
  const ratio = (pick: (round: ProjectorRound) => Latency): number | null =>
    median(rounds.map((round) => pick(round).p50Ms / round.alone.p50Ms));
  return [
    {
      name: 'projector: catching up',
      measured: perSecond,
      bound: 'at least',
      limit: 40_000,
      unit: 'events/s',
    },
    {
      name: 'projector: append beside one that keeps up, p50',
      measured: ratio(({ beside }) => beside),
      bound: 'at most',
      limit: 1.5,
      unit: '× alone',
    },
  ];
}
