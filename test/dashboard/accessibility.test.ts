import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { seed } from '../look/seed.ts';
import { violations } from '../support/axe.ts';
import { HAS_BROWSER, settled } from '../support/browser.ts';
import type { SignedInClient } from '../support/dashboard.ts';
import { startDashboard, type TestDashboard } from '../support/dashboard-browser.ts';
import { type Scene, SCENES } from '../support/scenes.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts';

/** Every page, as somebody who can't see it well, or can't use a mouse, meets it. `npm run look` asks the same of every dialog, theme and width. */
describe.skipIf(!HAS_BROWSER)('every page', () => {
  let upstream: ScriptedUpstream;
  let dashboard: TestDashboard;
  let clients: Record<Scene['who'], SignedInClient | null>;

  beforeAll(async () => {
    upstream = await startUpstream();
    dashboard = await startDashboard({ upstreams: [upstream] });
    const { member, auditor } = await seed(dashboard, upstream);
    clients = { nobody: null, administrator: dashboard.administrator, member, auditor };
  }, 120_000);
  afterAll(async () => {
    await dashboard?.[Symbol.asyncDispose]();
    await upstream?.close();
  });

  test('has nothing that axe finds fault with in light and in dark, breaks no rule of its own policy, and fits a phone', { timeout: 300_000 }, async () => {
    const found: Record<string, string[]> = {};
    for (const who of ['nobody', 'administrator', 'member', 'auditor'] as const) {
      const { context, page, problems } = await dashboard.visit(clients[who]);
      for (const scene of SCENES.filter((each) => each.who === who && each.act === undefined)) {
        await page.setViewportSize({ width: 1440, height: 900 });
        await page.goto('about:blank');
        await page.goto(dashboard.origin + scene.path);
        await settled(page);
        const faults = await violations(page);
        await page.evaluate("document.documentElement.dataset.theme = 'dark'");
        faults.push(...(await violations(page, 'colours')), ...problems.splice(0));
        await page.setViewportSize({ width: 390, height: 844 });
        const overflow = await page.evaluate<number>('document.documentElement.scrollWidth - window.innerWidth');
        if (overflow > 0) faults.push(`wider than a phone by ${overflow} px`);
        if (faults.length > 0) found[scene.name] = faults;
      }
      await context.close();
    }
    expect(found).toEqual({});
  });
});
