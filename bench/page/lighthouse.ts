import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { launchBrowser } from '../../test/support/browser/browser.ts';
import type { SignedInClient } from '../../test/support/dashboard.ts';
import { freePort } from '../machine/programs.ts';

/** Of 100. */
export type Scores = {
  page: string;
  form: 'mobile' | 'desktop';
  performance: number;
  accessibility: number;
  bestPractices: number;
  firstPaintMs: number;
  largestPaintMs: number;
  blockedMs: number;
  shift: number;
};

/** The part of Lighthouse that is used here; its own types are there only where it is installed. */
type Lighthouse = {
  default: (url: string, flags: object, config?: object) => Promise<{ lhr: LighthouseResult } | undefined>;
  desktopConfig: object;
};
type LighthouseResult = {
  categories: Record<string, { score: number | null }>;
  audits: Record<string, { numericValue?: number }>;
};

/** @throws {Error} with the command that installs it. */
async function loadLighthouse(): Promise<Lighthouse> {
  const program = join(import.meta.dirname, 'install/node_modules/lighthouse/core/index.js');
  if (!existsSync(program))
    throw new Error('Lighthouse is not installed. Install it: npm ci --prefix bench/page/install');
  return (await import(pathToFileURL(program).href)) as Lighthouse;
}

/** As Lighthouse advises: single runs vary by a tenth. */
const RUNS = 3;

/**
 * Lighthouse's scores of a page, signed in as this client, or with null signed out: the median of three runs.
 */
export async function judge(
  origin: string,
  path: string,
  client: SignedInClient | null,
  form: 'mobile' | 'desktop',
): Promise<Scores> {
  const runs: Scores[] = [];
  for (let run = 0; run < RUNS; run++) runs.push(await judgeOnce(origin, path, client, form));
  return runs.toSorted((one, other) => one.performance - other.performance)[(RUNS - 1) / 2] as Scores;
}

async function judgeOnce(
  origin: string,
  path: string,
  client: SignedInClient | null,
  form: 'mobile' | 'desktop',
): Promise<Scores> {
  const { default: lighthouse, desktopConfig } = await loadLighthouse();
  const port = await freePort();
  const browser = await launchBrowser([`--remote-debugging-port=${port}`]);
  try {
    const found = await lighthouse(
      origin + path,
      {
        port,
        output: 'json',
        logLevel: 'error',
        onlyCategories: ['performance', 'accessibility', 'best-practices'],
        ...(client ? { extraHeaders: { Cookie: client.cookie } } : {}),
      },
      form === 'desktop' ? desktopConfig : undefined,
    );
    if (!found) throw new Error('Lighthouse returned no result');
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
