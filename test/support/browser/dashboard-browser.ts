import type { Browser } from 'playwright-core';
import { createLogger } from '#db/diagnostics/logger.ts';
import { buildPage } from '#server/process/web-build.ts';
import { type Look, launchBrowser, openVisitor, type Visitor } from './browser.ts';
import { setUp, type SignedInClient } from '../dashboard.ts';
import { type RelayOptions, startRelay, type TestRelay } from '../relay.ts';
import { spawnWorker, type WorkerProcess } from '../servers/worker-process.ts';

/** A complete installation after its first start: a server with the built page, a worker and a browser. */
export type TestInstallation = AsyncDisposable & {
  relay: TestRelay;
  worker: WorkerProcess;
  origin: string;
  browser: Browser;
  /** Opens a new browser profile; null: not signed in. */
  visit(client: SignedInClient | null, look?: Look): Promise<Visitor>;
};

/** An installation that is set up, with its administrator. */
export type TestDashboard = TestInstallation & { administrator: SignedInClient };

export async function startDashboard(options: RelayOptions = {}): Promise<TestDashboard> {
  await using started = new AsyncDisposableStack();
  const installation = started.use(await startInstallation(options));
  const administrator = await setUp(installation.relay);
  started.move();
  return Object.assign(installation, { administrator });
}

export async function startInstallation(options: RelayOptions = {}): Promise<TestInstallation> {
  await buildPage(createLogger('silent'));
  await using started = new AsyncDisposableStack();
  const relay = started.use(await startRelay(options));
  const { store, dataDir } = relay;
  // A worker finds the embedded database by the data directory.
  const worker = started.adopt(
    spawnWorker({
      ...('url' in store ? { DATABASE_URL: String(store.url) } : {}),
      DAYBOOK_DATA: dataDir,
      LOG_LEVEL: 'warn',
    }),
    async (child) => void (await child.stop()),
  );
  const browser = started.adopt(await launchBrowser(), (each) => each.close());
  const origin = `http://127.0.0.1:${relay.port}`;
  const all = started.move();
  return {
    relay,
    worker,
    origin,
    browser,
    visit: (client, look) => openVisitor(browser, origin, client, look),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}
