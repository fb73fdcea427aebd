import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { attachStore } from '#db/postgres/store.ts';
import { withControl } from '#server/control/control.ts';
import { loadPepper } from '#server/secrets/pepper.ts';
import type { JobResult } from './driver/job.ts';
import type { Order, Watched } from './feed/viewers.ts';
import type { Goal } from './goals.ts';
import { type ProcessTree, readUsage } from './machine/cpu.ts';
import { findPinning } from './machine/pinning.ts';
import { plainEnvironment } from './machine/programs.ts';
import { type Stage, startUpstream } from './relay.ts';
import { driveSteadily } from './run.ts';
import type { Settings } from './settings.ts';
import { median } from './summary.ts';
import { figure, table } from './table.ts';
import { daybook } from './targets/daybook.ts';
import type { Running, Surroundings } from './targets/target.ts';

/** So many viewers of one account, and so many of its calls a second. */
type Setting = { viewers: number; perSecond: number };

/** What one round found. */
export type FeedRound = Setting & {
  watched: Watched;
  driver: Pick<JobResult, 'requests' | 'errors' | 'latencyUs'>;
  /** Shares of one CPU, while calls ran. */
  serverShare: number;
  postgresShare: number;
  /** What the viewers added, before any call. */
  rssPerViewerKb: number;
};

export type FeedReport = { feedRounds: FeedRound[]; goals: Goal[] };

const SETTINGS: readonly Setting[] = [
  { viewers: 1, perSecond: 1_000 },
  { viewers: 10, perSecond: 1_000 },
  { viewers: 100, perSecond: 1_000 },
  // All of them on all calls: more would measure the process that plays the viewers.
  { viewers: 1_000, perSecond: 100 },
];
/** A key may have a hundred viewers. */
const KEYS = 10;
const WARMUP_SECS = 2;
const SETTLE_MS = 500;
const VIEWERS = join(import.meta.dirname, 'feed/viewers.ts');

/**
 * Measures the live feed: how long an event takes from its append to a frame at a viewer, while
 * the relay takes calls at a steady rate, and what viewers cost the server.
 */
export async function benchFeed(
  settings: Settings,
  { directory, cleanup, signal }: Stage,
): Promise<FeedReport> {
  const pinning = findPinning();
  console.log(pinning.note);
  const surroundings = { directory, pinning, upstreamPort: await startUpstream(directory, pinning, cleanup) };
  const target = daybook('strict', KEYS, 'on');
  const feedRounds: FeedRound[] = [];
  for (let round = 0; round < settings.rounds; round++) {
    for (const setting of SETTINGS) {
      signal.throwIfAborted();
      // A server just started: memory that others have let go of would hide what viewers take.
      const running = await target.start(surroundings, 'memory');
      try {
        const measured = await measure(setting, running, { surroundings, settings, signal });
        feedRounds.push(measured);
        console.log(renderFeed([measured]));
      } finally {
        await running.stop();
      }
    }
  }
  return { feedRounds, goals: feedGoals(feedRounds) };
}

type Means = { surroundings: Surroundings; settings: Settings; signal: AbortSignal };

async function measure({ viewers, perSecond }: Setting, running: Running, means: Means): Promise<FeedRound> {
  const { settings } = means;
  const server: ProcessTree = {
    root: running.serverPid ?? 0,
    except: running.postgresPid === null ? [] : [running.postgresPid],
  };
  const postgres: ProcessTree = { root: running.postgresPid ?? 0, except: [] };
  const secrets = await makeKeys(running.dataDir ?? '');
  const before = readUsage(server).rssKb;
  const watching = startViewers(means.surroundings);
  try {
    send(watching, { kind: 'connect', port: running.port, secrets, viewers });
    await once(watching, 'message');
    await sleep(SETTLE_MS);
    const rssPerViewerKb = (readUsage(server).rssKb - before) / viewers;
    const warmupSecs = settings.warmupSecs ?? WARMUP_SECS;
    const driving = driveSteadily(
      running,
      perSecond,
      { warmupSecs, secs: settings.secs, trees: { server, postgres } },
      means,
    );
    await sleep(warmupSecs * 1_000);
    send(watching, { kind: 'count' });
    const { requests, errors, latencyUs, trees, secs } = await driving;
    send(watching, { kind: 'report' });
    const [watched] = (await once(watching, 'message')) as [Watched];
    const share = (name: string): number => (trees[name]?.cpuUs ?? 0) / (secs * 1e6);
    return {
      viewers,
      perSecond,
      watched,
      rssPerViewerKb,
      driver: { requests, errors, latencyUs },
      serverShare: share('server'),
      postgresShare: share('postgres'),
    };
  } finally {
    watching.kill();
  }
}

/** Keys that read the account whose calls are made. */
async function makeKeys(dataDir: string): Promise<string[]> {
  const store = await attachStore({ DAYBOOK_DATA: dataDir });
  return withControl(store, 'bench', async (control, client) => {
    const pepper = await loadPepper(client, { DAYBOOK_DATA: dataDir, DAYBOOK_PEPPER_FILE: undefined });
    const secrets: string[] = [];
    while (secrets.length < KEYS) {
      const { id, secret } = await control.createKey(pepper, {
        account: 'bench',
        name: 'viewer',
        expiresAt: null,
      });
      await control.restrictKey(id, {
        set: { reads: 'account' },
        drop: [],
        clear: false,
        expiresAt: undefined,
        windows: 'keep',
      });
      secrets.push(secret);
    }
    await sleep(SETTLE_MS);
    return secrets;
  });
}

function startViewers({ pinning }: Surroundings): ChildProcess {
  const [file, ...args] = [...pinning.prefix('load'), process.execPath, VIEWERS];
  return spawn(file, args, { env: plainEnvironment(), stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
}

function send(child: ChildProcess, order: Order): void {
  child.send(order);
}

const ms = (us: number | null): number | null => (us === null ? null : us / 1_000);

/** The table of the feed's bench. */
export function renderFeed(rounds: readonly FeedRound[]): string {
  const rows = rounds.map(
    ({ viewers, perSecond, watched, driver, serverShare, postgresShare, rssPerViewerKb }) => [
      `${viewers} viewers, ${perSecond} calls/s`,
      figure(ms(watched.delayUs.p50)),
      figure(ms(watched.delayUs.p99)),
      figure(ms(driver.latencyUs.p99)),
      figure(watched.messages),
      figure(watched.bytes / 1e6),
      String(watched.gaps),
      figure(serverShare * 100),
      figure(postgresShare * 100),
      figure(rssPerViewerKb),
    ],
  );
  const columns = ['live feed', 'frame p50 ms', 'p99 ms', 'call p99 ms', 'messages', 'MB', 'gaps'];
  return `\n${table([...columns, 'server CPU %', 'Postgres CPU %', 'KB/viewer'], rows)}`;
}

function feedGoals(rounds: readonly FeedRound[]): Goal[] {
  return SETTINGS.flatMap(({ viewers, perSecond }) => {
    const of = rounds.filter((round) => round.viewers === viewers && round.perSecond === perSecond);
    const at = (quantile: 'p50' | 'p99'): number | null =>
      median(of.map(({ watched }) => ms(watched.delayUs[quantile]) ?? Infinity));
    const name = `append to frame, ${viewers} viewers, ${perSecond} calls/s`;
    // A thousand viewers are told less often, so that the process is left to its calls.
    if (viewers > 10)
      return [{ name: `${name}: p99`, measured: at('p99'), bound: 'at most', limit: 150, unit: 'ms' }];
    return [
      { name: `${name}: p50`, measured: at('p50'), bound: 'at most', limit: 25, unit: 'ms' },
      { name: `${name}: p99`, measured: at('p99'), bound: 'at most', limit: 150, unit: 'ms' },
    ];
  });
}
