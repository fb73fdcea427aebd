import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import type { SignedInClient } from '../dashboard.ts';
import { chromiumPath } from './chromium.ts';

/** A browser of the system, if given. The packaged one is built for 64-bit Linux only. */
const GIVEN = process.env['DAYBOOK_CHROMIUM'];
export const HAS_BROWSER = GIVEN !== undefined || (process.platform === 'linux' && process.arch === 'x64');

/** A real Chromium, without the package's flags, which disable security checks under test. */
export async function launchBrowser(args: readonly string[] = []): Promise<Browser> {
  // Loading the driver takes half a second, and the bench imports this file for all that it measures.
  const { chromium: driver } = await import('playwright-core');
  return driver.launch({
    executablePath: GIVEN ?? (await chromiumPath()),
    args: ['--no-sandbox', '--headless', '--disable-gpu', ...args],
    headless: true,
  });
}

export type Look = { theme?: 'light' | 'dark'; width?: number; height?: number };

/** A browser profile with a page, and the errors of scripts and of the content security policy in it. */
export type Visitor = { context: BrowserContext; page: Page; problems: string[] };

/** For a page that hangs; a busy machine is slow. */
const WAIT_MS = 90_000;

/** Opens a new browser profile, signed in as the client if given. */
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
  context.setDefaultTimeout(WAIT_MS);
  if (client) {
    const [name = '', value = ''] = client.cookie.split('=');
    await context.addCookies([{ name, value, url: origin, httpOnly: true, sameSite: 'Lax' }]);
  }
  const problems: string[] = [];
  context.on('weberror', (met) => problems.push(`error: ${met.error().message}`));
  context.on('console', (message) => {
    // Chromium logs every response above 399 as an error, including expected ones.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
      problems.push(`console: ${message.text()}`);
  });
  return { context, page: await context.newPage(), problems };
}

/** Runs in the page: returns the problem after the timeout, or null after three stable frames. */
const SETTLED = `new Promise((resolve) => {
  const untilMs = performance.now() + ${WAIT_MS};
  let frames = 0;
  const look = () => {
    const isShown = document.querySelector('h1')?.checkVisibility() === true;
    const isLoading = document.querySelector('[role=status][aria-label^=Loading]') !== null;
    const problem = !isShown ? 'shows nothing' : isLoading ? 'is still loading' : null;
    frames = problem === null ? frames + 1 : 0;
    if (frames === 3 || performance.now() > untilMs) resolve(problem);
    else requestAnimationFrame(look);
  };
  look();
})`;

/** Waits until a page has content, no placeholder is left, and it was painted. */
export async function settled(page: Page): Promise<void> {
  const problem = await page.evaluate<string | null>(SETTLED);
  if (problem !== null) throw new Error(`${page.url()} ${problem}`);
}

/** A site of another origin with an empty page. */
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
