import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { HAS_BROWSER, settled } from '../support/browser.ts';
import type { SignedInClient } from '../support/dashboard.ts';
import { startDashboard, type TestDashboard } from '../support/dashboard-browser.ts';

/** All that a browser fetches for a first look, compressed as every server can. */
const FIRST_LOAD_BYTES_MAX = 150 * 1024;
const SIGN_IN_BYTES_MAX = 115 * 1024;

describe.skipIf(!HAS_BROWSER)('the first load', () => {
  let dashboard: TestDashboard;
  beforeAll(async () => {
    dashboard = await startDashboard();
  }, 120_000);
  afterAll(() => dashboard?.[Symbol.asyncDispose]());

  async function weigh(client: SignedInClient | null, path: string): Promise<{ bytes: number; files: Record<string, number>; strangers: string[] }> {
    const { context, page } = await dashboard.visit(client);
    const files: Record<string, number> = {};
    const strangers: string[] = [];
    const weighed: Promise<void>[] = [];
    page.on('response', (response) => {
      const url = new URL(response.url());
      if (url.origin !== dashboard.origin && url.protocol !== 'data:') strangers.push(url.origin);
      weighed.push(response.body().then((body) => void (files[url.pathname] = gzipSync(body, { level: 9 }).length), () => {}));
    });
    await page.goto(path);
    await settled(page);
    await Promise.all(weighed);
    await context.close();
    return { bytes: Object.values(files).reduce((sum, bytes) => sum + bytes, 0), files, strangers };
  }

  test('of the sign-in stays below 115 KB, and asks nobody else for anything', async () => {
    const { bytes, files, strangers } = await weigh(null, '/sign-in');
    expect(bytes, JSON.stringify(files)).toBeLessThanOrEqual(SIGN_IN_BYTES_MAX);
    expect(Object.keys(files).length).toBeGreaterThan(2);
    expect(strangers).toEqual([]);
  });

  test('of the overview stays below 150 KB, figures included, and asks nobody else for anything', async () => {
    const { bytes, files, strangers } = await weigh(dashboard.administrator, '/');
    expect(bytes, JSON.stringify(files)).toBeLessThanOrEqual(FIRST_LOAD_BYTES_MAX);
    expect(Object.keys(files)).toContain('/api/usage');
    expect(strangers).toEqual([]);
  });
});
