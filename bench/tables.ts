import { join } from 'node:path';
import { startEmbedded } from '#db/postgres/embedded/embedded.ts';
import { closeClient, connectAs } from '#db/postgres/connect.ts';
import { migrate } from '#db/schema/migrate.ts';
import { ReadStore } from '#server/read/store.ts';
import type { Goal } from './goals.ts';
import type { Stage } from './relay.ts';
import type { Settings } from './settings.ts';
import { figure, table } from './table.ts';
import { daysOf, fillTables, REQUESTS_PER_DAY } from './tables/fill.ts';
import { fillMonitored } from './tables/fill-monitored.ts';
import { type Explained, explainMonitor, MONITORS } from './tables/monitors.ts';
import { type Question, questions } from './tables/queries.ts';

/** What one question took, in milliseconds. */
export type Asked = {
  name: string;
  p50Ms: number;
  p95Ms: number;
  /** The first time after Postgres was started; the file cache of the system stays. */
  coldMs: number;
  /** The least of all, which a busy machine moves least. */
  leastMs: number;
  /** The same with a tenth of the history; null where it has not the time that is shown. */
  tenthLeastMs: number | null;
};

/** What the queries of the worker's monitors cost, each run once with the whole history. */
export type Monitored = { name: string } & Explained;

export type TablesReport = {
  requests: number;
  fillSecs: number;
  asked: Asked[];
  monitored: Monitored[];
  goals: Goal[];
};

const TURNS = 50;
const DAY_MS = 86_400_000;

/**
 * Measures what the dashboard asks of the projections' tables: first with a tenth of the history,
 * then with all of it, and then each question as the first after a start of Postgres. The load of a
 * day is the same throughout, so that only the history grows.
 */
export async function benchTables(
  { requestCount }: Settings,
  { directory, signal }: Stage,
): Promise<TablesReport> {
  const dataDir = join(directory, 'tables');
  const start = () => startEmbedded({ dataDir, log: () => {} });
  let store = await start();
  try {
    await migrate(store);
    const days = daysOf(requestCount);
    const tenth = Math.ceil(days / 10);
    const nowMs = Math.floor(Date.now() / DAY_MS) * DAY_MS;
    const asked = questions(nowMs).filter((question) => question.days <= days);

    const fills: number[] = [];
    const fill = async (from: number, to: number): Promise<void> => {
      const begunMs = performance.now();
      await fillTables(store, nowMs, { from, to }, signal);
      fills.push((performance.now() - begunMs) / 1_000);
    };
    await fill(tenth, 0);
    const before = await askAll(
      store,
      asked.filter((question) => question.days <= tenth),
      signal,
    );
    if (days > tenth) await fill(days, tenth);
    const warm = await askAll(store, asked, signal);

    await fillMonitored(store, requestCount, signal);
    const monitored = await runMonitors(store);

    const rows: Asked[] = [];
    for (const question of asked) {
      signal.throwIfAborted();
      await store.stop();
      store = await start();
      const { coldMs } = await askOnce(store, question);
      const found = warm.get(question.name) as Warm;
      rows.push({
        name: question.name,
        ...found,
        coldMs,
        tenthLeastMs: before.get(question.name)?.leastMs ?? null,
      });
    }
    return {
      requests: days * REQUESTS_PER_DAY,
      fillSecs: fills.reduce((sum, secs) => sum + secs, 0),
      asked: rows,
      monitored,
      goals: [...tablesGoals(rows), ...monitorGoals(monitored)],
    };
  } finally {
    await store.stop();
  }
}

type Warm = Pick<Asked, 'p50Ms' | 'p95Ms' | 'leastMs'>;
type Opened = Awaited<ReturnType<typeof startEmbedded>>;

/** Each question many times in a row, after once that does not count. */
async function askAll(
  store: Opened,
  asked: readonly Question[],
  signal: AbortSignal,
): Promise<Map<string, Warm>> {
  const reads = new ReadStore(store.config('relay'));
  try {
    const found = new Map<string, Warm>();
    for (const question of asked) {
      signal.throwIfAborted();
      await question.ask(reads, 0);
      const times: number[] = [];
      for (let turn = 0; turn < TURNS; turn++) times.push(await timed(() => question.ask(reads, turn)));
      times.sort((left, right) => left - right);
      const at = (share: number): number => times[Math.floor(TURNS * share)] as number;
      found.set(question.name, { p50Ms: at(0.5), p95Ms: at(0.95), leastMs: at(0) });
    }
    return found;
  } finally {
    await reads.close();
  }
}

/** With the connection made before, as a server has one for its calls' sake; nothing was read over it. */
async function askOnce(store: Opened, question: Question): Promise<{ coldMs: number }> {
  const reads = new ReadStore(store.config('relay'));
  try {
    return { coldMs: await timed(() => question.ask(reads, 0)) };
  } finally {
    await reads.close();
  }
}

async function timed(work: () => Promise<void>): Promise<number> {
  const begunMs = performance.now();
  await work();
  return performance.now() - begunMs;
}

/** Each query of a monitor, under the statement timeout that the worker has. */
async function runMonitors(store: Opened): Promise<Monitored[]> {
  const client = await connectAs(store, 'worker');
  try {
    const found: Monitored[] = [];
    for (const monitor of MONITORS)
      found.push({ name: monitor.name, ...(await explainMonitor(client, monitor)) });
    return found;
  } finally {
    await closeClient(client);
  }
}

export function renderTables({ requests, fillSecs, asked, monitored }: TablesReport): string {
  const rows = asked.map(({ name, p50Ms, p95Ms, coldMs, leastMs, tenthLeastMs }) => [
    name,
    figure(p50Ms),
    figure(p95Ms),
    figure(coldMs),
    figure(leastMs),
    figure(tenthLeastMs),
    figure(tenthLeastMs === null ? null : leastMs / tenthLeastMs),
  ]);
  return `\n${requests.toLocaleString('en-US')} requests, filled in ${figure(fillSecs)} s\n${table(
    ['milliseconds', 'p50', 'p95', 'cold', 'least', 'least, a tenth', 'times'],
    rows,
  )}\n\n${table(
    ['monitor', 'ms', 'rows removed', 'index conditions'],
    monitored.map(({ name, ms, removed, indexes }) => [
      name,
      figure(ms),
      String(removed),
      indexes.join(', ') || 'none',
    ]),
  )}`;
}

/** Rows that a monitor may read and throw away: those that changed since its last run, not the history. */
const REMOVED_MAX = 10_000;

function monitorGoals(monitored: readonly Monitored[]): Goal[] {
  return [
    {
      name: 'tables: slowest monitor',
      measured: Math.max(...monitored.map(({ ms }) => ms)),
      bound: 'at most',
      limit: 100,
      unit: 'ms',
    },
    {
      name: 'tables: rows a monitor reads in vain',
      measured: Math.max(...monitored.map(({ removed }) => removed)),
      bound: 'at most',
      limit: REMOVED_MAX,
      unit: '',
    },
  ];
}

function tablesGoals(asked: readonly Asked[]): Goal[] {
  const worst = (pick: (row: Asked) => number): number => Math.max(...asked.map(pick));
  const ratios = asked.flatMap(({ leastMs, tenthLeastMs }) =>
    tenthLeastMs === null ? [] : [leastMs / tenthLeastMs],
  );
  return [
    {
      name: 'tables: slowest question, p95',
      measured: worst(({ p95Ms }) => p95Ms),
      bound: 'at most',
      limit: 100,
      unit: 'ms',
    },
    {
      name: 'tables: slowest question, cold',
      measured: worst(({ coldMs }) => coldMs),
      bound: 'at most',
      limit: 500,
      unit: 'ms',
    },
    {
      name: 'tables: ten times the history, same time shown',
      measured: ratios.length === 0 ? null : Math.max(...ratios),
      bound: 'at most',
      limit: 2,
      unit: '×',
    },
  ];
}
