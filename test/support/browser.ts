import packaged from '@sparticuz/chromium';
import { type Browser, type BrowserContext, chromium as driver, type Page } from 'playwright-core';
import type { SignedInClient } from './dashboard.ts';

/** A system's own browser, where one is given; the one that comes as a package is built for 64-bit Linux alone. */
const GIVEN = process.env['DAYBOOK_CHROMIUM'];
export const HAS_BROWSER = GIVEN !== undefined || (process.platform === 'linux' && process.arch === 'x64');

/** A real Chromium. Not with the package's own flags: they switch off rules that are the point here. */
export async function launchBrowser(args: readonly string[] = []): Promise<Browser> {
  return driver.launch({ executablePath: GIVEN ?? (await packaged.executablePath()), args: ['--no-sandbox', '--headless', '--disable-gpu', ...args], headless: true });
}

export type Look = { theme?: 'light' | 'dark'; width?: number; height?: number };

/** A page of somebody's own browser, and what went wrong in it: errors of scripts and breaches of the page's policy. */
export type Visitor = { context: BrowserContext; page: Page; problems: string[] };

/** Opens a browser's own profile. With a client it is signed in as they are. */
export async function openVisitor(browser: Browser, origin: string, client: SignedInClient | null, { theme = 'light', width = 1440, height = 900 }: Look = {}): Promise<Visitor> {
  const context = await browser.newContext({ baseURL: origin, viewport: { width, height }, colorScheme: theme, locale: 'en-GB', timezoneId: 'Europe/Berlin', reducedMotion: 'reduce' });
  if (client) {
    const [name = '', value = ''] = client.cookie.split('=');
    await context.addCookies([{ name, value, url: origin, httpOnly: true, sameSite: 'Lax' }]);
  }
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(`error: ${error.message}`));
  page.on('console', (message) => {
    // The browser writes down every reply above 399 as an error of its own, those that a page expects included.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) problems.push(`console: ${message.text()}`);
  });
  return { context, page, problems };
}

const PLACE_HOLDERS = '[role=status][aria-label^=Loading]';
const WAIT_MS = 20_000;
const POLL_MS = 20;
const PAINT_MS = 150;

/** Until a page has something to show and no place holder is left. */
export async function settled(page: Page): Promise<void> {
  await page
    .locator('h1')
    .first()
    .waitFor({ timeout: WAIT_MS })
    .catch((error: unknown) => {
      throw new Error(`${page.url()} shows nothing`, { cause: error });
    });
  const deadline = performance.now() + WAIT_MS;
  while ((await page.locator(PLACE_HOLDERS).count()) > 0) {
    if (performance.now() > deadline) throw new Error(`${page.url()} still waits for something`);
    await page.waitForTimeout(POLL_MS);
  }
  await page.waitForTimeout(PAINT_MS);
}
