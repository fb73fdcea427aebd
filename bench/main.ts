import { mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { keepCompiled } from '#db/compile-cache.ts';
import { renderGoals } from './goals.ts';
import type { Stage } from './relay.ts';
import { readSettings, type Settings, USAGE, UsageError } from './settings.ts';

/** The file system that Linux keeps in memory. */
const TMPFS = 0x01021994;

/** Each bench, loaded when it runs: its report, and the report's text unless it prints that itself. */
const BENCHES = {
  async relay(settings: Settings, stage: Stage) {
    const { benchRelay } = await import('./relay.ts');
    return { report: await benchRelay(settings, stage), text: null };
  },
  async profile(settings: Settings, stage: Stage) {
    const { benchProfile, renderProfile } = await import('./profile.ts');
    const report = await benchProfile(settings, stage);
    return { report, text: renderProfile(report.shares) };
  },
  async ladder(settings: Settings, stage: Stage) {
    const { benchLadder, renderLadder } = await import('./ladder.ts');
    const report = await benchLadder(settings, stage);
    return { report, text: renderLadder(report.ladder) };
  },
  async log(settings: Settings, stage: Stage) {
    const { benchLog, renderLog } = await import('./log.ts');
    const report = await benchLog(settings, stage);
    return { report, text: renderLog(report.rounds) };
  },
  async projector(settings: Settings, stage: Stage) {
    const { benchProjector, renderProjector } = await import('./projector.ts');
    const report = await benchProjector(settings, stage);
    return { report, text: renderProjector(report) };
  },
  async tables(settings: Settings, stage: Stage) {
    const { benchTables, renderTables } = await import('./tables.ts');
    const report = await benchTables(settings, stage);
    return { report, text: renderTables(report) };
  },
  async feed(settings: Settings, stage: Stage) {
    const { benchFeed, renderFeed } = await import('./feed.ts');
    const report = await benchFeed(settings, stage);
    return { report, text: renderFeed(report.feedRounds) };
  },
  async page(settings: Settings, stage: Stage) {
    const { benchPage, renderPage } = await import('./page.ts');
    const report = await benchPage(settings, stage);
    return { report, text: renderPage(report) };
  },
  async admission(settings: Settings, stage: Stage) {
    const { benchAdmission, renderAdmission } = await import('./admission.ts');
    const report = await benchAdmission(settings, stage);
    return { report, text: renderAdmission(report) };
  },
  async month(settings: Settings, stage: Stage) {
    const { benchMonth, renderMonth } = await import('./month.ts');
    const report = await benchMonth(settings, stage);
    return { report, text: renderMonth(report) };
  },
  async telemetry(settings: Settings, stage: Stage) {
    const { benchTelemetry, renderTelemetry } = await import('./telemetry.ts');
    const report = await benchTelemetry(settings, stage);
    return { report, text: renderTelemetry(report) };
  },
  async translation(settings: Settings, stage: Stage) {
    const { benchTranslation, renderTranslation } = await import('./translation.ts');
    const report = await benchTranslation(settings, stage);
    return { report, text: renderTranslation(report) };
  },
};

/** Runs the bench that was asked for. @returns the exit code: 1 when a reply was wrong. */
async function main(args: string[]): Promise<number> {
  const settings = readSettings(args);
  if (settings === null) {
    console.log(USAGE);
    return 0;
  }
  if (process.platform !== 'linux') {
    console.error('The bench reads CPU time from /proc, which only Linux has.');
    return 2;
  }
  await using cleanup = new AsyncDisposableStack();
  const directory = makeDirectory(cleanup);
  return await bench(settings, { directory, cleanup, signal: abortOnSignal() });
}

async function bench(settings: Settings, stage: Stage): Promise<number> {
  const { report, text } = await BENCHES[settings.bench](settings, stage);
  if (text !== null) console.log(text);
  if (report.goals.length > 0) console.log(renderGoals(report.goals));
  if (settings.out !== null) {
    mkdirSync(dirname(settings.out), { recursive: true });
    writeFileSync(
      settings.out,
      `${JSON.stringify({ at: new Date().toISOString(), settings, ...report }, null, 1)}\n`,
    );
  }
  const wrong =
    'summaries' in report && report.summaries.some(({ errors }) => Object.keys(errors).length > 0);
  const unequal = 'equal' in report && !report.equal.isEqual;
  return wrong || unequal ? 1 : 0;
}

function makeDirectory(cleanup: AsyncDisposableStack): string {
  const directory = mkdtempSync(join(tmpdir(), 'daybook-bench-'));
  cleanup.defer(() => rmSync(directory, { recursive: true, force: true }));
  if (statfsSync(directory).type === TMPFS) {
    console.log(`${directory} is in memory, where commits cost nothing: set TMPDIR to a directory on a disk`);
  }
  return directory;
}

/** The first signal calls the bench off, so that what it started is stopped; a second one ends it at once. */
function abortOnSignal(): AbortSignal {
  const controller = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => controller.abort(new Error(`called off by ${signal}`)));
  return controller.signal;
}

keepCompiled();
try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  const calledOff = error instanceof Error && error.name === 'AbortError';
  if (calledOff) console.error('called off');
  else console.error(error instanceof UsageError ? `${error.message}\n\n${USAGE}` : error);
  process.exitCode = calledOff ? 130 : 2;
}
