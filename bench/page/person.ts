import type { Browser } from 'playwright-core';
import { openVisitor, type Visitor } from '../../test/support/browser/browser.ts';
import type { SignedInClient } from '../../test/support/dashboard.ts';

/** What a page has done with its main thread. */
export type Smoothness = { longTasks: number; longestMs: number; framesPerSec: number };

/** Run in the page before its own scripts: notes long tasks and counts frames. */
const WATCH = `
  window.seen = { long: [], frames: 0, fromMs: 0 };
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.seen.long.push([entry.startTime, entry.duration]);
  }).observe({ type: 'longtask', buffered: true });
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
    `({
      long: window.seen.long.filter(([at]) => at > window.seen.fromMs).map(([, ms]) => ms),
      frames: window.seen.frames,
      ms: performance.now() - window.seen.fromMs,
    })`,
  );
  return { longTasks: long.length, longestMs: Math.max(0, ...long), framesPerSec: (frames * 1_000) / ms };
}
