import type { Browser } from 'playwright-core';
import { attachStore } from '#db/postgres/store.ts';
import { launchBrowser, settled } from '../test/support/browser/browser.ts';
import { setUp, type SignedInClient } from '../test/support/dashboard.ts';
import type { Goal } from './goals.ts';
import { findPinning } from './machine/pinning.ts';
import { judge, type Scores } from './page/lighthouse.ts';
import { openWatched, type Smoothness, watchPage } from './page/person.ts';
import { type Stage, startUpstream } from './relay.ts';
import { driveSteadily } from './run.ts';
import type { Settings } from './settings.ts';
import { median } from './median.ts';
import { figure, table } from './table.ts';
import { daysOf, fillTables, REQUESTS_PER_DAY } from './tables/fill.ts';
import { daybook } from './targets/daybook.ts';
import type { Running, Surroundings } from './targets/target.ts';

/** How long a page takes to show something, and to show its figures. */
export type Shown = { page: string; firstPaintMs: number; figuresMs: number };
export type Live = Smoothness & { page: string; perSecond: number };
export type PageReport = { requests: number; shown: Shown[]; live: Live[]; scores: Scores[]; goals: Goal[] };

const KEYS = 100;
const LOADS = 7;
const DAY_MS = 86_400_000;
const PER_SECOND = [200, 1_000];
const CALM_SECS = 3;
const HISTORY_PAGES = ['/', '/?range=30d', '/requests', '/usage?range=30d'];
const LIVE_PAGES = ['/', '/requests'];

/**
 * Measures the dashboard in a real browser: pages with a long history behind them, while calls come, and by
 * Lighthouse.
 */
export async function benchPage(
  settings: Settings,
  { directory, cleanup, signal }: Stage,
): Promise<PageReport> {
  const pinning = findPinning();
  const surroundings = { directory, pinning, upstreamPort: await startUpstream(directory, pinning, cleanup) };
  const browser = await launchBrowser();
  cleanup.defer(() => browser.close());

  const days = daysOf(settings.requestCount);
  const shown: Shown[] = [];
  const scores: Scores[] = [];
  // Its worker would look at tables that no log is behind.
  const past = await daybook('strict', KEYS, 'off').start(surroundings, 'memory');
  try {
    await fill(past, days, signal);
    const person = await administratorOf(past);
    for (const page of HISTORY_PAGES) shown.push(await timePage(browser, person, page));
  } finally {
    await past.stop();
  }

  const live: Live[] = [];
  const present = await daybook('strict', KEYS, 'on').start(surroundings, 'load');
  try {
    const person = await administratorOf(present);
    // By an installation that nothing is behind in: a page that has to say so is another one.
    for (const form of ['mobile', 'desktop'] as const) {
      scores.push(await judge(person.origin, '/sign-in', null, form));
      for (const page of ['/', '/requests', '/keys'])
        scores.push(await judge(person.origin, page, person, form));
    }
    for (const perSecond of PER_SECOND) {
      for (const page of LIVE_PAGES)
        live.push(
          await watchLive(browser, present, person, page, perSecond, { surroundings, settings, signal }),
        );
    }
  } finally {
    await present.stop();
  }
  return { requests: days * REQUESTS_PER_DAY, shown, live, scores, goals: pageGoals(shown, live, scores) };
}

/** Of an installation that was just started, by its setup link. */
const administratorOf = ({ port, dataDir }: Running): Promise<SignedInClient> =>
  setUp({ port, dataDir: dataDir ?? '' });

async function fill({ dataDir }: Running, days: number, signal: AbortSignal): Promise<void> {
  const store = await attachStore({ DAYBOOK_DATA: dataDir ?? '' });
  await fillTables(store, Math.floor(Date.now() / DAY_MS) * DAY_MS, { from: days, to: 0 }, signal);
}

async function timePage(browser: Browser, person: SignedInClient, path: string): Promise<Shown> {
  const paints: number[] = [];
  const figures: number[] = [];
  for (let load = 0; load < LOADS; load++) {
    const { context, page } = await openWatched(browser, person);
    await page.goto(path);
    await settled(page);
    figures.push(await page.evaluate<number>('performance.now()'));
    paints.push(
      await page.evaluate<number>(
        "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0",
      ),
    );
    await context.close();
  }
  return { page: path, firstPaintMs: median(paints) ?? 0, figuresMs: median(figures) ?? 0 };
}

type Means = { surroundings: Surroundings; settings: Settings; signal: AbortSignal };

async function watchLive(
  browser: Browser,
  running: Running,
  person: SignedInClient,
  path: string,
  perSecond: number,
  means: Means,
): Promise<Live> {
  const { secs } = means.settings;
  const visitor = await openWatched(browser, person);
  await visitor.page.goto(path);
  await settled(visitor.page);
  const driving = driveSteadily(running, perSecond, { warmupSecs: CALM_SECS, secs, trees: {} }, means);
  await visitor.page.waitForTimeout(CALM_SECS * 1_000);
  const smoothness = await watchPage(visitor, secs);
  await driving;
  await visitor.context.close();
  return { page: path, perSecond, ...smoothness };
}

export function renderPage({ requests, shown, live, scores }: PageReport): string {
  return [
    `\n${requests.toLocaleString('en-US')} requests of history`,
    table(
      ['page', 'first paint ms', 'figures ms'],
      shown.map(({ page, firstPaintMs, figuresMs }) => [page, figure(firstPaintMs), figure(figuresMs)]),
    ),
    table(
      ['page', 'calls/s', 'long tasks', 'longest ms', 'frames/s'],
      live.map((row) => [
        row.page,
        String(row.perSecond),
        String(row.longTasks),
        figure(row.longestMs),
        figure(row.framesPerSec),
      ]),
    ),
    table(
      [
        'Lighthouse',
        'form',
        'performance',
        'accessibility',
        'best practices',
        'first paint ms',
        'largest ms',
        'blocked ms',
        'shift',
      ],
      scores.map((row) => [
        row.page,
        row.form,
        String(row.performance),
        String(row.accessibility),
        String(row.bestPractices),
        figure(row.firstPaintMs),
        figure(row.largestPaintMs),
        figure(row.blockedMs),
        figure(row.shift),
      ]),
    ),
  ].join('\n');
}

function pageGoals(shown: readonly Shown[], live: readonly Live[], scores: readonly Scores[]): Goal[] {
  const overview = shown.find(({ page }) => page === '/');
  const at200 = live.filter(({ perSecond }) => perSecond === 200);
  const least = (form: Scores['form']): number =>
    Math.min(...scores.filter((each) => each.form === form).map(({ performance }) => performance));
  return [
    {
      name: 'overview: first paint, history behind it',
      measured: overview?.firstPaintMs ?? null,
      bound: 'at most',
      limit: 1_500,
      unit: 'ms',
    },
    {
      name: 'overview: figures there, history behind it',
      measured: overview?.figuresMs ?? null,
      bound: 'at most',
      limit: 1_500,
      unit: 'ms',
    },
    {
      name: '200 live calls per second: longest task',
      measured: Math.max(...at200.map(({ longestMs }) => longestMs)),
      bound: 'at most',
      limit: 50,
      unit: 'ms',
    },
    {
      name: 'Lighthouse, mobile: least performance',
      measured: least('mobile'),
      bound: 'at least',
      limit: 95,
      unit: 'of 100',
    },
    {
      name: 'Lighthouse, desktop: least performance',
      measured: least('desktop'),
      bound: 'at least',
      limit: 100,
      unit: 'of 100',
    },
    {
      name: 'Lighthouse: least accessibility',
      measured: Math.min(...scores.map(({ accessibility }) => accessibility)),
      bound: 'at least',
      limit: 100,
      unit: 'of 100',
    },
  ];
}
