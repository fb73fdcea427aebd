import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readConfig } from '#server/process/config.ts';
import { type RunningServer, startServer } from '#server/process/server.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import { buildPage } from '#server/process/web-build.ts';
import { HAS_BROWSER, launchBrowser, openVisitor, settled } from '../../support/browser/browser.ts';
import { chat } from '../../support/client.ts';
import { setUp, type SignedInClient } from '../../support/dashboard.ts';
import { makePlace, type Place, until } from '../../support/relay.ts';
import { refusedPort } from '../../support/upstream/upstream.ts';
import { spawnWorker, type WorkerProcess } from '../../support/servers/worker-process.ts';

describe.skipIf(!HAS_BROWSER)('a live page', () => {
  let place: Place;
  let port: number;
  let server: RunningServer;
  let worker: WorkerProcess;
  let browser: Browser;
  let client: SignedInClient;
  let key: string;

  const start = (): Promise<RunningServer> =>
    startServer(readConfig({ ...place.env, PORT: String(port) }), createLogger('silent'));

  beforeAll(async () => {
    await buildPage(createLogger('silent'));
    place = await makePlace();
    port = await refusedPort();
    server = await start();
    key = server.firstKey?.secret ?? '';
    worker = spawnWorker({ ...place.env, LOG_LEVEL: 'warn' });
    client = await setUp({ port, dataDir: place.dataDir });
    browser = await launchBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await worker?.stop();
    await server?.stop();
    await place?.[Symbol.asyncDispose]();
  });

  const call = () =>
    chat({ port, key, body: { model: 'daybook-demo', messages: [{ role: 'user', content: 'Hello' }] } });

  test('reconnects automatically after a server restart and shows every request in between', async () => {
    const { page, problems } = await openVisitor(browser, client.origin, client);
    await page.goto('/requests');
    await settled(page);
    const rows = page.getByText('daybook-demo', { exact: true }).filter({ visible: true });
    const shown = (count: number): Promise<number> =>
      until(
        () => rows.count(),
        (seen) => seen === count,
        'the list',
      );
    const live = page.getByText('Live', { exact: true }).filter({ visible: true }).first();
    await live.waitFor();
    for (let made = 0; made < 3; made++) await call();
    await shown(3);

    await server.stop();
    await page.getByText('Reconnecting…').filter({ visible: true }).first().waitFor();
    server = await start();
    // Most likely before the page has reconnected, and without a page load.
    for (let made = 0; made < 5; made++) await call();
    await live.waitFor();
    await shown(8);
    for (let made = 0; made < 2; made++) await call();
    await shown(10);
    expect(problems.filter((problem) => !problem.includes('WebSocket connection'))).toEqual([]);
  });

  test('a click while the server restarts waits, and goes on when the server is back', async () => {
    const { context, page } = await openVisitor(browser, client.origin, client);
    await page.goto('/requests');
    await settled(page);
    await server.stop();
    await page.getByText('Reconnecting…').filter({ visible: true }).first().waitFor();
    await page.getByRole('link', { name: 'API keys' }).click();
    await page.getByText('This page opens when it does.').waitFor();
    server = await start();
    await page.getByRole('heading', { name: 'API keys' }).waitFor();
    expect(new URL(page.url()).pathname).toBe('/keys');
    await context.close();
  });

  test('a page whose modules an upgrade has replaced is loaded once more', async () => {
    const { context, page } = await openVisitor(browser, client.origin, client);
    await page.goto('/requests');
    await settled(page);
    let missing = 0;
    await page.route(/\/assets\/.*\.js$/, async (route) => {
      missing += 1;
      // Of the page that was clicked on; the page that is loaded anew gets its modules.
      if (missing === 1) await route.fulfill({ status: 404, body: '' });
      else await route.fallback();
    });
    await page.getByRole('link', { name: 'API keys' }).click();
    await page.getByRole('heading', { name: 'API keys' }).waitFor();
    expect(new URL(page.url()).pathname).toBe('/keys');
    expect(missing).toBeGreaterThan(1);
    await context.close();
  });
});
