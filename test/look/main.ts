import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { bannedWords } from '../layout/words.ts';
import { violations } from '../support/browser/axe.ts';
import { settled } from '../support/browser/browser.ts';
import { type TestDashboard, startDashboard } from '../support/browser/dashboard-browser.ts';
import { type Scene, SCENES } from '../support/browser/scenes.ts';
import { startUpstream } from '../support/upstream/upstream.ts';
import { correctSome, seed } from './seed.ts';
import { seedEmails, seedInvoices } from './seed-billing.ts';

/**
 * Screenshots of every page and dialog, light and dark, wide and narrow, and each page as it is printed, for
 * review by a person: `npm run look [-- name…]`. A name selects the scenes that start with it. Violations of
 * axe, of the content security policy, of the width and of the vocabulary are printed below each.
 */
const WIDTHS = [1440, 390] as const;
const THEMES = ['light', 'dark'] as const;

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { out: { type: 'string', default: 'look' } },
  });
  const out = path.resolve(values.out);
  await mkdir(out, { recursive: true });
  const upstream = await startUpstream();
  const dashboard = await startDashboard({ upstreams: [upstream], postgres: 'embedded' });
  const stop = new AbortController();
  try {
    const { member, auditor, traffic } = await seed(dashboard, upstream);
    const account = dashboard.administrator.me.account.id;
    await seedInvoices(dashboard, [account, member.me.account.id]);
    await seedEmails(dashboard, account);
    await correctSome(dashboard.administrator, account, 'bill 2026-2');
    const running = traffic(stop.signal);
    const clients = { visitor: null, administrator: dashboard.administrator, member, auditor };
    const chosen = SCENES.filter(
      ({ name }) => positionals.length === 0 || positionals.some((each) => name.startsWith(each)),
    );
    for (const scene of chosen) await shoot(dashboard, scene, clients[scene.who], out);
    stop.abort();
    await running;
  } finally {
    stop.abort();
    await dashboard[Symbol.asyncDispose]();
    await upstream.close();
  }
}

async function shoot(
  dashboard: TestDashboard,
  scene: Scene,
  client: Parameters<TestDashboard['visit']>[0],
  out: string,
): Promise<void> {
  for (const theme of THEMES) {
    for (const width of WIDTHS) {
      const { context, page, problems } = await dashboard.visit(client, {
        theme,
        width,
        height: width === 390 ? 844 : 900,
      });
      await page.goto(scene.path);
      await settled(page).catch(() => problems.push('not settled within 20 s'));
      await scene.act?.(page);
      await page.waitForTimeout(1_200);
      const file = path.join(out, `${scene.name}-${theme}-${width}.png`);
      await page.screenshot({ path: file });
      const overflow = await page.evaluate<number>(
        'document.documentElement.scrollWidth - window.innerWidth',
      );
      problems.push(...(await violations(page)));
      const text = await page.evaluate<string>('document.body.innerText');
      problems.push(...bannedWords(scene.name, text));
      if (theme === 'dark' && width === 1440 && scene.act === undefined)
        await page.pdf({ path: path.join(out, `${scene.name}-print.pdf`), preferCSSPageSize: true });
      if (overflow > 0) problems.push(`wider than the window by ${overflow} px`);
      process.stdout.write(`${file}${problems.map((problem) => `\n  ${problem}`).join('')}\n`);
      await context.close();
    }
  }
}

await main();
process.exit();
