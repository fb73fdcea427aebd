import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { HAS_BROWSER, settled, type Visitor } from '../support/browser.ts';
import { chat } from '../support/client.ts';
import { startDashboard, type TestDashboard } from '../support/dashboard-browser.ts';
import { SCENES } from '../support/scenes.ts';

/** What runs if any of it is taken for more than text. */
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

describe.skipIf(!HAS_BROWSER)('the dashboard', () => {
  let dashboard: TestDashboard;
  beforeAll(async () => {
    dashboard = await startDashboard();
  }, 120_000);
  afterAll(() => dashboard?.[Symbol.asyncDispose]());

  /** A page of somebody else's, in the same browser, that is signed in at ours. */
  async function onOtherSite(host: string, use: (page: Page, visitor: Visitor) => Promise<void>): Promise<void> {
    const site = createServer((_request, response) => void response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>other</title><h1>other</h1>'));
    site.listen(0, '127.0.0.1');
    await once(site, 'listening');
    const visitor = await dashboard.visit(dashboard.administrator);
    try {
      await visitor.page.goto(`http://${host}:${(site.address() as AddressInfo).port}/`);
      await use(visitor.page, visitor);
    } finally {
      await visitor.context.close();
      site.closeAllConnections();
      site.close();
    }
  }

  const keysMade = async (): Promise<number> => (await dashboard.relay.readLog()).filter(({ event }) => event.type === 'key.created').length;

  // To a browser another port is the same site, so that cookies are sent along; another name is not.
  test.for(['127.0.0.1', 'localhost'])('carries out nothing that a page on another port or site sends, and gives it no feed (%s)', async (host) => {
    const before = await keysMade();
    await onOtherSite(host, async (page) => {
      const target = dashboard.origin;
      await page.evaluate(`fetch('${target}/api/keys', { method: 'POST', mode: 'no-cors', credentials: 'include', body: '{"name":"stolen"}' }).catch(() => {})`);
      await page.evaluate(`fetch('${target}/api/keys', { method: 'POST', credentials: 'include', headers: { 'content-type': 'application/json' }, body: '{"name":"stolen"}' }).catch(() => {})`);
      await page.evaluate(`{ const form = Object.assign(document.createElement('form'), { method: 'post', action: '${target}/api/keys', enctype: 'text/plain', target: 'frame' });
        form.append(Object.assign(document.createElement('input'), { name: '{"name":"stolen","x":"', value: '"}' }));
        document.body.append(Object.assign(document.createElement('iframe'), { name: 'frame' }), form); form.submit(); }`);
      const feed = await page.evaluate<string>(`new Promise((resolve) => { const socket = new WebSocket('${target.replace('http', 'ws')}/api/live', 'daybook.v1');
        socket.onopen = () => resolve('open'); socket.onerror = () => resolve('refused'); })`);
      expect(feed).toBe('refused');
      const read = await page.evaluate<string>(`fetch('${target}/api/me', { credentials: 'include' }).then((reply) => reply.text(), () => 'not readable')`);
      expect(read).toBe('not readable');
      await page.waitForTimeout(300);
    });
    expect(await keysMade()).toBe(before);
  });

  test('may not be framed', async () => {
    await onOtherSite('127.0.0.1', async (page) => {
      await page.evaluate(`document.body.append(Object.assign(document.createElement('iframe'), { src: '${dashboard.origin}/' }))`);
      await page.waitForTimeout(500);
      const framed = page.frames().find((frame) => frame !== page.mainFrame());
      expect(await framed?.evaluate('document.body.innerText').catch(() => '')).not.toContain('Daybook');
    });
  });

  test('shows names, errors and replies as text, whatever they hold', { timeout: 120_000 }, async () => {
    const { administrator, relay } = dashboard;
    for (const [index, text] of CORPUS.entries()) {
      const name = text.slice(0, 95);
      expect((await administrator.post('/api/accounts', { name })).status).toBe(200);
      const { body } = await administrator.post<{ secret: string }>('/api/keys', { name });
      await administrator.put('/api/prices', { model: text, prices: { input: 1, cached_input: 1, output: 1, reasoning: 1 } });
      // The demo says it again; every other call fails, with the name of its model in the refusal.
      await chat({ port: relay.port, key: body.secret, body: { model: index % 2 === 0 ? 'daybook-demo' : text, messages: [{ role: 'user', content: text }] } });
    }
    const { context, page, problems } = await dashboard.visit(administrator);
    const firstOf = async (list: string): Promise<string> => {
      const { body } = await administrator.get<{ data: { id?: string; request?: string }[] }>(list);
      return body.data[0]?.request ?? body.data[0]?.id ?? '';
    };
    const open = [`/requests?request=${await firstOf('/api/requests?outcome=completed')}`, `/keys?key=${await firstOf('/api/keys')}`, `/admin/accounts?account=${await firstOf('/api/accounts')}`];
    for (const path of [...SCENES.filter(({ who, act }) => who === 'administrator' && act === undefined).map((scene) => scene.path), ...open]) {
      await page.goto('about:blank');
      await page.goto(dashboard.origin + path);
      await settled(page);
    }
    for (const text of CORPUS.slice(0, 3)) {
      await page.goto(`${dashboard.origin}/requests?model=${encodeURIComponent(text)}`);
      await settled(page);
      await page.goto(`${dashboard.origin}/${encodeURIComponent(text)}`);
      await settled(page);
    }
    expect(await page.evaluate('window.executed')).toBeUndefined();
    // Nothing was even tried: the policy would have told.
    expect(problems).toEqual([]);
    await page.goto(`${dashboard.origin}/keys`);
    await settled(page);
    expect(await page.evaluate<string>('document.body.innerText')).toContain(CORPUS[0]);
    await context.close();
  });
});
