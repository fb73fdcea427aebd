import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Browser, type BrowserContext, chromium as driver, type Page } from 'playwright-core';
import type { SignedInClient } from '../dashboard.ts';
import { chromiumPath } from './chromium.ts';

/**
 * A system's own browser, where one is given; the one that comes as a package is built for 64-bit Linux
 * alone.
 */
const GIVEN = process.env['DAYBOOK_CHROMIUM'];
export const HAS_BROWSER = GIVEN !== undefined || (process.platform === 'linux' && process.arch === 'x64');

/** A real Chromium. Not with the package's own flags: they switch off rules that are the point here. */
export async function launchBrowser(args: readonly string[] = []): Promise<Browser> {
  return driver.launch({
    executablePath: GIVEN ?? (await chromiumPath()),
    args: ['--no-sandbox', '--headless', '--disable-gpu', ...args],
    headless: true,
  });
}

export type Look = { theme?: 'light' | 'dark'; width?: number; height?: number };

/**
 * A page of somebody's own browser, and what went wrong there, in further pages too: errors of scripts and
 * breaches of the page's policy.
 */
export type Visitor = { context: BrowserContext; page: Page; problems: string[] };

/** Opens a browser's own profile. With a client it is signed in as they are. */
export async function openVisitor(
  browser: Browser,
  origin: string,
  client: SignedInClient | null,
  { theme = 'light', width = 1440, height = 900 }: Look = {},
): Promise<Visitor> {
  const context = await browser.newContext({
    baseURL: origin,
    viewport: { width, height },
    colorScheme: theme,
    locale: 'en-GB',
    timezoneId: 'Europe/Berlin',
    reducedMotion: 'reduce',
  });
  if (client) {
    const [name = '', value = ''] = client.cookie.split('=');
    await context.addCookies([{ name, value, url: origin, httpOnly: true, sameSite: 'Lax' }]);
  }
  const problems: string[] = [];
  context.on('weberror', (met) => problems.push(`error: ${met.error().message}`));
  context.on('console', (message) => {
    // The browser writes down every reply above 399 as an error of its own, those that a page expects
    // included.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
      problems.push(`console: ${message.text()}`);
  });
  return { context, page: await context.newPage(), problems };
}

const WAIT_MS = 20_000;

/**
 * Run in the page: what is amiss when it has been waited for long enough, or null once nothing was for three
 * frames.
 */
const SETTLED = `new Promise((resolve) => {
  const untilMs = performance.now() + ${WAIT_MS};
  let frames = 0;
  const look = () => {
    const isShown = document.querySelector('h1')?.checkVisibility() === true;
    const isLoading = document.querySelector('[role=status][aria-label^=Loading]') !== null;
    const amiss = !isShown ? 'shows nothing' : isLoading ? 'is still loading' : null;
    frames = amiss === null ? frames + 1 : 0;
    if (frames === 3 || performance.now() > untilMs) resolve(amiss);
    else requestAnimationFrame(look);
  };
  look();
})`;

/** Until a page has something to show, no place holder is left, and that was painted. */
export async function settled(page: Page): Promise<void> {
  const amiss = await page.evaluate<string | null>(SETTLED);
  if (amiss !== null) throw new Error(`${page.url()} ${amiss}`);
}

/** A site of an origin of its own, with an empty page. */
export type Site = AsyncDisposable & { port: number; origin: string };

export async function startSite(): Promise<Site> {
  const server = createServer(
    (_request, response) =>
      void response
        .writeHead(200, { 'content-type': 'text/html' })
        .end('<!doctype html><title>a page</title>'),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    port,
    origin: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
