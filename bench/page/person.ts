import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { openVisitor, type Visitor } from '../../test/support/browser.ts';
import { PASSWORD, type SignedInClient, tokenOf, visit } from '../../test/support/dashboard.ts';
import type { Running } from '../targets/target.ts';

/** The administrator of an installation that was just started, by its setup link. */
export async function claimSetup({ port, dataDir }: Running): Promise<SignedInClient> {
  const client = visit({ port });
  const link = (await readFile(join(dataDir ?? '', 'setup-link.txt'), 'utf8')).trim();
  const email = 'bench@example.com';
  const { status, body } = await client.post<SignedInClient['me']>('/api/setup', { token: tokenOf(link), email, password: PASSWORD });
  if (status !== 200) throw new Error(`the setup link was refused: ${status}`);
  return Object.assign(client, { me: body, email });
}

/** What a page has done with its main thread. */
export type Smoothness = { longTasks: number; longestMs: number; framesPerSec: number };

/** Run in the page before its own scripts: notes long tasks and counts frames. */
const WATCH = `
  window.seen = { long: [], frames: 0, fromMs: 0 };
  new PerformanceObserver((list) => { for (const entry of list.getEntries()) window.seen.long.push([entry.startTime, entry.duration]); }).observe({ type: 'longtask', buffered: true });
  const frame = () => { window.seen.frames++; requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
`;

export async function openWatched(browser: Browser, client: SignedInClient): Promise<Visitor> {
  const visitor = await openVisitor(browser, client.origin, client);
  await visitor.page.addInitScript(WATCH);
  return visitor;
}

/** How smooth a page is over some time from now on. */
export async function watchPage({ page }: Visitor, secs: number): Promise<Smoothness> {
  await page.evaluate('window.seen.frames = 0, window.seen.fromMs = performance.now()');
  await page.waitForTimeout(secs * 1_000);
  const { long, frames, ms } = await page.evaluate<{ long: number[]; frames: number; ms: number }>(
    '({ long: window.seen.long.filter(([at]) => at > window.seen.fromMs).map(([, ms]) => ms), frames: window.seen.frames, ms: performance.now() - window.seen.fromMs })',
  );
  return { longTasks: long.length, longestMs: Math.max(0, ...long), framesPerSec: (frames * 1_000) / ms };
}
