import { mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { benchFeed, renderFeed } from './feed.ts';
import { renderGoals } from './goals.ts';
import { benchLog, renderLog } from './log.ts';
import { benchPage, renderPage } from './page.ts';
import { benchProjector, renderProjector } from './projector.ts';
import { benchRelay, type Stage } from './relay.ts';
import { readSettings, type Settings, USAGE, UsageError } from './settings.ts';
import { benchTables, renderTables } from './tables.ts';
import { benchTranslation, renderTranslation } from './translation.ts';

/** The file system that Linux keeps in memory. */
const TMPFS = 0x01021994;

const BENCHES = {
  relay: benchRelay,
  log: benchLog,
  projector: benchProjector,
  tables: benchTables,
  feed: benchFeed,
  page: benchPage,
  translation: benchTranslation,
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
  const report = await BENCHES[settings.bench](settings, stage);
  if ('rounds' in report) console.log(renderLog(report.rounds));
  if ('catchUp' in report) console.log(renderProjector(report));
  if ('feedRounds' in report) console.log(renderFeed(report.feedRounds));
  if ('shown' in report) console.log(renderPage(report));
  if ('chunkCosts' in report) console.log(renderTranslation(report));
  if ('asked' in report) console.log(renderTables(report));
  console.log(renderGoals(report.goals));
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

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  const calledOff = error instanceof Error && error.name === 'AbortError';
  if (calledOff) console.error('called off');
  else console.error(error instanceof UsageError ? `${error.message}\n\n${USAGE}` : error);
  process.exitCode = calledOff ? 130 : 2;
}
