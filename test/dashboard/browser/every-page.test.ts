import { gzipSync } from 'node:zlib';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bannedWords } from '../../layout/words.ts';
import { seed } from '../../look/seed.ts';
import { violations } from '../../support/browser/axe.ts';
import { HAS_BROWSER, settled, startSite, type Visitor } from '../../support/browser/browser.ts';
import { chat } from '../../support/client.ts';
import type { SignedInClient } from '../../support/dashboard.ts';
import { startDashboard, type TestDashboard } from '../../support/browser/dashboard-browser.ts';
import { type Scene, SCENES } from '../../support/browser/scenes.ts';
import { type ScriptedUpstream, startUpstream } from '../../support/upstream/upstream.ts';

/** The dashboard in a real browser: its first load, cross-site attacks, and checks of every page. */
/** The visible text of a page with its accessible names, tooltips and placeholders, without user content. */
const RENDERED = `[
  document.title,
  document.body.innerText,
  ...['aria-label', 'title', 'placeholder', 'aria-valuetext', 'aria-description'].flatMap((name) =>
    [...document.querySelectorAll('[' + name + ']')].map((element) => element.getAttribute(name)),
  ),
].join('\\n')`;

describe.skipIf(!HAS_BROWSER)('the dashboard', () => {
  let upstream: ScriptedUpstream;
  let dashboard: TestDashboard;

  beforeAll(async () => {
    upstream = await startUpstream();
    dashboard = await startDashboard({ upstreams: [upstream] });
  });
  afterAll(async () => {
    await dashboard?.[Symbol.asyncDispose]();
    await upstream?.close();
  });

  /** Everything that a browser fetches for the first page, compressed. */
  describe('on first load', () => {
    const FIRST_LOAD_BYTES_MAX = 150 * 1024;
    const SIGN_IN_BYTES_MAX = 115 * 1024;

    async function weigh(
      client: SignedInClient | null,
      path: string,
    ): Promise<{ bytes: number; files: Record<string, number>; strangers: string[] }> {
      const { context, page } = await dashboard.visit(client);
      const files: Record<string, number> = {};
      const strangers: string[] = [];
      const weighed: Promise<void>[] = [];
      page.on('response', (response) => {
        const url = new URL(response.url());
        if (url.origin !== dashboard.origin && url.protocol !== 'data:') strangers.push(url.origin);
        weighed.push(
          response.body().then(
            (body) => void (files[url.pathname] = gzipSync(body, { level: 9 }).length),
            () => {},
          ),
        );
      });
      await page.goto(path, { waitUntil: 'networkidle' });
      await settled(page);
      await Promise.all(weighed);
      await context.close();
      return { bytes: Object.values(files).reduce((sum, bytes) => sum + bytes, 0), files, strangers };
    }

    test('the sign-in page stays below 115 KB, without third-party requests', async () => {
      const { bytes, files, strangers } = await weigh(null, '/sign-in');
      expect(bytes, JSON.stringify(files)).toBeLessThanOrEqual(SIGN_IN_BYTES_MAX);
      expect(Object.keys(files).length).toBeGreaterThan(2);
      expect(strangers).toEqual([]);
    });

    test('the overview stays below 150 KB including its data, without third-party requests', async () => {
      const { bytes, files, strangers } = await weigh(dashboard.administrator, '/');
      expect(bytes, JSON.stringify(files)).toBeLessThanOrEqual(FIRST_LOAD_BYTES_MAX);
      expect(Object.keys(files)).toContain('/api/v1/usage');
      expect(strangers).toEqual([]);
    });
  });

  describe('beside a page of another site', () => {
    /** A page of another site, in a browser that is signed in to the dashboard. */
    async function onOtherSite(host: string, use: (page: Page) => Promise<void>): Promise<void> {
      await using site = await startSite();
      const { context, page } = await dashboard.visit(dashboard.administrator);
      try {
        await page.goto(`http://${host}:${site.port}/`);
        await use(page);
      } finally {
        await context.close();
      }
    }

    const keysMade = async (): Promise<number> =>
      (await dashboard.relay.readLog()).filter(({ event }) => event.type === 'key.created').length;

    // A browser treats another port as the same site and sends cookies; another host name is another site.
    test.for(['127.0.0.1', 'localhost'])(
      'rejects changes and live feeds from a page on another port or site (%s)',
      async (host) => {
        const before = await keysMade();
        await onOtherSite(host, async (page) => {
          const target = dashboard.origin;
          await page.evaluate(
            `fetch('${target}/api/v1/keys', {
              method: 'POST', mode: 'no-cors', credentials: 'include', body: '{"name":"stolen"}',
            }).catch(() => {})`,
          );
          await page.evaluate(
            `fetch('${target}/api/v1/keys', {
              method: 'POST', credentials: 'include', headers: { 'content-type': 'application/json' },
              body: '{"name":"stolen"}',
            }).catch(() => {})`,
          );
          const answered = page.waitForResponse(
            (reply) => reply.request().isNavigationRequest() && reply.url() === `${target}/api/v1/keys`,
          );
          await page.evaluate(`{
            const make = (tag, fields) => Object.assign(document.createElement(tag), fields);
            const action = '${target}/api/v1/keys';
            const form = make('form', { method: 'post', action, enctype: 'text/plain', target: 'frame' });
            form.append(make('input', { name: '{"name":"stolen","x":"', value: '"}' }));
            document.body.append(make('iframe', { name: 'frame' }), form);
            form.submit();
          }`);
          const feed = await page.evaluate<string>(`new Promise((resolve) => {
              const socket = new WebSocket('${target.replace('http', 'ws')}/api/v1/live', 'daybook.v1');
              socket.onopen = () => resolve('open'); socket.onerror = () => resolve('refused'); })`);
          expect(feed).toBe('refused');
          const read = await page.evaluate<string>(
            `fetch('${target}/api/v1/me', { credentials: 'include' })
              .then((reply) => reply.text(), () => 'not readable')`,
          );
          expect(read).toBe('not readable');
          expect((await answered).status()).toBe(403);
        });
        expect(await keysMade()).toBe(before);
      },
    );

    test('can’t be framed', async () => {
      await onOtherSite('127.0.0.1', async (page) => {
        const framed = page.waitForEvent(
          'framenavigated',
          (frame) => frame !== page.mainFrame() && frame.url() !== 'about:blank',
        );
        await page.evaluate(
          `document.body.append(
            Object.assign(document.createElement('iframe'), { src: '${dashboard.origin}/' }),
          )`,
        );
        expect((await framed).url()).toBe('chrome-error://chromewebdata/');
      });
    });
  });

  describe('on every page', () => {
    /** Runs if any text is interpreted as code. */
    const RUN = 'window.executed=1';
    const CORPUS = [
      `<script>${RUN}</script>`,
      `<img src=x onerror=${RUN}>`,
      `"><svg onload=${RUN}>`,
      `javascript:${RUN}`,
      `'-(${RUN})-'`,
      `\${${RUN}}{{${RUN}}}`,
      `<iframe srcdoc="<script>parent.${RUN}</script>">`,
      `</title><script>${RUN}</script>`,
    ];

    /** Violations with the page they occurred on. */
    const faults: Record<'access' | 'policy' | 'width' | 'executed' | 'words', string[]> = {
      access: [],
      policy: [],
      width: [],
      executed: [],
      words: [],
    };
    /** Pages that show the first planted texts. */
    let planted: string[];

    async function plant(): Promise<void> {
      const { administrator, relay } = dashboard;
      for (const [index, text] of CORPUS.entries()) {
        const name = text.slice(0, 95);
        const account = await administrator.post<{ id: string }>('/api/v1/accounts', { name });
        expect(account.status).toBe(200);
        const { body: key } = await administrator.post<{ id: string; secret: string }>('/api/v1/keys', {
          name,
        });
        await administrator.put('/api/v1/prices', {
          model: text,
          base: { input: 1, output: 1 },
        });
        // The demo echoes the text; every other request fails with the model's name in the error.
        const { requestId } = await chat({
          port: relay.port,
          key: key.secret,
          body: {
            model: index % 2 === 0 ? 'daybook-demo' : text,
            messages: [{ role: 'user', content: text }],
          },
        });
        planted ??= [
          `/requests?request=${requestId}`,
          `/admin/accounts?account=${account.body.id}`,
          `/keys?key=${key.id}`,
        ];
      }
    }

    async function open({ page, problems }: Visitor, path: string, name = path): Promise<void> {
      await page.goto(path);
      await settled(page);
      if ((await page.evaluate('window.executed')) !== undefined) faults.executed.push(name);
      faults.policy.push(...problems.splice(0).map((problem) => `${name}: ${problem}`));
    }

    async function lookAt(visitor: Visitor, { name, path }: Scene): Promise<void> {
      const { page } = visitor;
      await page.setViewportSize({ width: 1440, height: 900 });
      await open(visitor, path, name);
      const text = await page.evaluate<string>(RENDERED);
      faults.words.push(...bannedWords(name, text));
      const found = await violations(page);
      await page.evaluate("document.documentElement.dataset.theme = 'dark'");
      found.push(...(await violations(page, 'colours')));
      faults.access.push(...found.map((violation) => `${name}: ${violation}`));
      await page.setViewportSize({ width: 390, height: 844 });
      const overflow = await page.evaluate<number>(
        'document.documentElement.scrollWidth - window.innerWidth',
      );
      if (overflow > 0) faults.width.push(`${name}: wider than a phone by ${overflow} px`);
    }

    beforeAll(async () => {
      const { administrator } = dashboard;
      const { member, auditor } = await seed(dashboard, upstream);
      await plant();
      const clients = { visitor: null, administrator, member, auditor };
      for (const who of ['visitor', 'administrator', 'member', 'auditor'] as const) {
        const visitor = await dashboard.visit(clients[who]);
        for (const scene of SCENES.filter((each) => each.who === who && each.act === undefined))
          await lookAt(visitor, scene);
        await visitor.context.close();
        faults.policy.push(...visitor.problems);
      }
    }, 300_000);

    test('has no axe violations in light and dark', () => {
      expect(faults.access).toEqual([]);
    });

    test('uses standard terms in everything that it shows', () => {
      expect(faults.words).toEqual([]);
    });

    test('fits a phone', () => {
      expect(faults.width).toEqual([]);
    });

    test('shows names, errors and replies as text, and violates no content security policy', async () => {
      const visitor = await dashboard.visit(dashboard.administrator);
      const asked = CORPUS.slice(0, 3).map(encodeURIComponent);
      for (const path of [...asked.flatMap((text) => [`/requests?model=${text}`, `/${text}`]), ...planted])
        await open(visitor, path);
      await open(visitor, '/keys');
      expect(await visitor.page.evaluate<string>('document.body.innerText')).toContain(CORPUS[0]);
      await visitor.context.close();
      expect(faults.executed).toEqual([]);
      // A blocked attempt would have been reported by the policy.
      expect([...faults.policy, ...visitor.problems]).toEqual([]);
    });
  });
});
