import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import type { AddressInfo } from 'node:net';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readConfig } from '#server/config.ts';
import { type RunningServer, startServer } from '#server/server.ts';
import { createLogger } from '#server/telemetry.ts';
import { buildPage } from '#server/web-build.ts';
import { HAS_BROWSER, launchBrowser, openVisitor, settled } from '../support/browser.ts';
import { chat } from '../support/client.ts';
import { PASSWORD, type SignedInClient, tokenOf, visit } from '../support/dashboard.ts';
import { makePlace, type Place } from '../support/relay.ts';
import { spawnWorker, type WorkerProcess } from '../support/worker-process.ts';

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

describe.skipIf(!HAS_BROWSER)('a page that is live', () => {
  let place: Place;
  let port: number;
  let server: RunningServer;
  let worker: WorkerProcess;
  let browser: Browser;
  let client: SignedInClient;
  let key: string;

  const start = (): Promise<RunningServer> => startServer(readConfig({ ...place.env, PORT: String(port) }), createLogger('silent'));

  beforeAll(async () => {
    await buildPage(createLogger('silent'));
    place = await makePlace();
    port = await freePort();
    server = await start();
    key = server.firstKey?.secret ?? '';
    worker = spawnWorker({ ...place.env, LOG_LEVEL: 'warn' });
    const link = (await readFile(path.join(place.dataDir, 'setup-link.txt'), 'utf8')).trim();
    const visitor = visit({ port });
    const email = 'ada@example.com';
    const { body } = await visitor.post<SignedInClient['me']>('/api/setup', { token: tokenOf(link), email, password: PASSWORD });
    client = Object.assign(visitor, { me: body, email });
    browser = await launchBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await worker?.stop();
    await server?.stop();
    await place?.[Symbol.asyncDispose]();
  });

  const call = (model: string): Promise<{ status: number | null }> => chat({ port, key, body: { model, messages: [{ role: 'user', content: 'Hello' }] } });

  test('says that it reconnects when the server restarts, does so by itself, and shows every call of the time in between', async () => {
    const { page, problems } = await openVisitor(browser, client.origin, client);
    await page.goto('/requests');
    await settled(page);
    const rows = page.getByText('daybook-demo', { exact: true }).filter({ visible: true });
    const live = page.getByText('Live', { exact: true }).filter({ visible: true }).first();
    await live.waitFor();
    for (let made = 0; made < 3; made++) await call('daybook-demo');
    await expect.poll(() => rows.count(), { timeout: 15_000 }).toBe(3);

    await server.stop();
    await page.getByText('Reconnecting…').filter({ visible: true }).first().waitFor();
    server = await start();
    // Before the page is back, most likely, and in any case without its being loaded anew.
    for (let made = 0; made < 5; made++) await call('daybook-demo');
    await live.waitFor();
    await expect.poll(() => rows.count(), { timeout: 15_000 }).toBe(8);
    for (let made = 0; made < 2; made++) await call('daybook-demo');
    await expect.poll(() => rows.count(), { timeout: 15_000 }).toBe(10);
    expect(problems.filter((problem) => !problem.includes('WebSocket connection'))).toEqual([]);
  });
});
