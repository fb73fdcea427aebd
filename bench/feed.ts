import { setTimeout as sleep } from 'node:timers/promises';
import type { JobResult } from './driver/job.ts';
import type { Watched } from './feed/viewers.ts';
import { closeViewers, makeViewerKeys, openViewers, reportOf, startCounting } from './feed/watching.ts';
import type { Goal } from './goals.ts';
import { type ProcessTree, readUsage } from './machine/cpu.ts';
import { findPinning } from './machine/pinning.ts';
import { type Stage, startUpstream } from './relay.ts';
import { driveSteadily } from './run.ts';
import type { Settings } from './settings.ts';
import { median } from './median.ts';
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
  const secrets = await makeViewerKeys(running.dataDir ?? '', KEYS);
  const before = readUsage(server).rssKb;
  const watching = await openViewers(means.surroundings, running.port, secrets, viewers);
  try {
    const rssPerViewerKb = (readUsage(server).rssKb - before) / viewers;
    const warmupSecs = settings.warmupSecs ?? WARMUP_SECS;
    const driving = driveSteadily(
      running,
      perSecond,
      { warmupSecs, secs: settings.secs, trees: { server, postgres } },
      means,
    );
    await sleep(warmupSecs * 1_000);
    startCounting(watching);
    const { requests, errors, latencyUs, trees, secs } = await driving;
    const watched = await reportOf(watching);
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
    closeViewers(watching);
  }
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
