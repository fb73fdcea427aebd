import lighthouse, { desktopConfig } from 'lighthouse';
import { launchBrowser } from '../../test/support/browser.ts';
import type { SignedInClient } from '../../test/support/dashboard.ts';
import { freePort } from '../machine/programs.ts';

/** Of 100. */
export type Scores = { page: string; form: 'mobile' | 'desktop'; performance: number; accessibility: number; bestPractices: number; firstPaintMs: number; largestPaintMs: number; blockedMs: number; shift: number };

/** What Lighthouse says of a page as somebody sees it who is signed in, or with null of one who is not. */
export async function judge(origin: string, path: string, client: SignedInClient | null, form: 'mobile' | 'desktop'): Promise<Scores> {
  const port = await freePort();
  const browser = await launchBrowser([`--remote-debugging-port=${port}`]);
  try {
    const found = await lighthouse(
      origin + path,
      { port, output: 'json', logLevel: 'error', onlyCategories: ['performance', 'accessibility', 'best-practices'], ...(client ? { extraHeaders: { Cookie: client.cookie } } : {}) },
      form === 'desktop' ? desktopConfig : undefined,
    );
    if (!found) throw new Error('Lighthouse said nothing');
    const { categories, audits } = found.lhr;
    const score = (name: string): number => Math.round((categories[name]?.score ?? 0) * 100);
    const ms = (name: string): number => audits[name]?.numericValue ?? 0;
    return {
      page: path,
      form,
      performance: score('performance'),
      accessibility: score('accessibility'),
      bestPractices: score('best-practices'),
      firstPaintMs: ms('first-contentful-paint'),
      largestPaintMs: ms('largest-contentful-paint'),
      blockedMs: ms('total-blocking-time'),
      shift: ms('cumulative-layout-shift'),
    };
  } finally {
    await browser.close();
  }
}
