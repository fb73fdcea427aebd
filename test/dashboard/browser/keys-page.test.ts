import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { KeyList } from '#server/contract/keys.ts';
import type { LimitList } from '#server/contract/limits.ts';
import type { RequestPage } from '#server/contract/requests.ts';
import { violations } from '../../support/browser/axe.ts';
import { HAS_BROWSER, settled, type Visitor } from '../../support/browser/browser.ts';
import { startDashboard, type TestDashboard } from '../../support/browser/dashboard-browser.ts';
import { chat } from '../../support/client.ts';
import { callDemo } from '../../support/dashboard.ts';
import { until } from '../../support/relay.ts';

const SECRET = /dbk_[0-9A-Za-z]{8}_[0-9A-Za-z]{49}/;

/** Flows on the keys and members pages. */
describe.skipIf(!HAS_BROWSER)('the pages of keys and members', () => {
  let dashboard: TestDashboard;
  let visitor: Visitor;
  beforeAll(async () => {
    dashboard = await startDashboard();
    visitor = await dashboard.visit(dashboard.administrator);
  });
  afterAll(() => dashboard?.[Symbol.asyncDispose]());

  /** In a new page of the signed-in browser. */
  async function on(path: string, use: (page: Page) => Promise<void>): Promise<void> {
    const page = await visitor.context.newPage();
    await page.goto(path);
    await settled(page);
    await use(page);
    await page.close();
    expect(visitor.problems.splice(0)).toEqual([]);
  }

  /** Everything that a page stores: its document, fields, URL, history and the browser's storage. */
  const kept = (page: Page): Promise<string> =>
    page.evaluate<string>(`[
      document.documentElement.outerHTML,
      ...[...document.querySelectorAll('input, textarea')].map((field) => field.value),
      location.href,
      JSON.stringify(history.state),
      JSON.stringify(localStorage),
      JSON.stringify(sessionStorage),
      document.title,
    ].join('\\n')`);

  const keysNamed = async (name: string): Promise<KeyList['data']> =>
    (await dashboard.administrator.get<KeyList>('/api/v1/keys')).body.data.filter((key) => key.name === name);
  const rotations = async (id: string): Promise<number> =>
    (await dashboard.relay.readLog()).filter(({ event }) => event.type === 'key.rotated' && event.key === id)
      .length;

  async function choose(page: Page, name: string, action: string): Promise<void> {
    await page.getByRole('button', { name: `Actions for ${name}` }).click();
    await page.getByRole('button', { name: action, exact: true }).click();
  }

  test('create a restricted key by keyboard, show its secret once without storing it', async () => {
    await on('/keys', async (page) => {
      await page.keyboard.press('n');
      await page.keyboard.type('by hand');
      // Selecting text of a field may end outside the dialog.
      await page.getByLabel('Name', { exact: true }).hover();
      await page.mouse.down();
      await page.mouse.move(2, 2);
      await page.mouse.up();
      await page.getByText('Restrict this key').click();
      await page.getByLabel('Selected').first().check();
      await page.getByRole('combobox', { name: 'Models' }).fill('daybook-demo');
      await page.getByLabel('Requests per minute').fill('1.5k');
      await page.getByRole('button', { name: 'Add quota' }).click();
      await page.getByLabel('Limit', { exact: true }).fill('12.50');
      await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByText('won’t be able to see it again').waitFor();
      const secret = SECRET.exec(await dialog.innerText())?.[0] ?? '';
      expect(secret).not.toBe('');
      expect(await dialog.locator('pre').innerText()).toContain(`Bearer ${secret}`);
      expect(await violations(page)).toEqual([]);

      await page.keyboard.press('Escape');
      await page.keyboard.press('Escape');
      await page.keyboard.press('Control+k');
      expect(await dialog.innerText()).toContain(secret);

      await page.getByRole('button', { name: 'Done' }).click();
      await page.getByText('key.restricted').waitFor();
      const rest = await kept(page);
      expect(rest).toContain(secret.slice(-4));
      expect(rest).not.toContain(secret);
      expect(rest).not.toMatch(SECRET);
    });
    const terms = {
      models: ['daybook-demo'],
      requests_per_minute: 1_500,
      quotas: [{ meter: 'cost_nanousd', window: 'month', limit: 12_500_000_000, enforcement: 'soft' }],
    };
    expect(await keysNamed('by hand')).toMatchObject([{ terms }]);
  });

  test('report an incomplete response as an error, and load the keys on retry', async () => {
    await on('/settings', async (page) => {
      await page.route('**/api/v1/keys*', (route) =>
        route.fulfill({ contentType: 'application/json', body: '{"object":"list","data":[' }),
      );
      await page.getByRole('link', { name: 'API keys' }).click();
      await page.getByText('The server is not responding').waitFor();
      await page.unroute('**/api/v1/keys*');
      await page.getByRole('button', { name: 'Try again' }).click();
      await page.getByText('by hand').first().waitFor();
    });
  });

  test('ignore single-key shortcuts once they are turned off', async () => {
    await on('/settings', async (page) => {
      await page.getByLabel('Single-key shortcuts').uncheck();
      await page.getByRole('heading', { name: 'Settings' }).click();
      await page.keyboard.press('g');
      await page.keyboard.press('k');
      await page.keyboard.press('Control+k');
      await page.getByRole('combobox', { name: 'Search pages and actions' }).waitFor();
      await page.keyboard.press('Escape');
      expect(new URL(page.url()).pathname).toBe('/settings');
      await page.getByLabel('Single-key shortcuts').check();
      await page.getByRole('heading', { name: 'Settings' }).click();
      await page.keyboard.press('g');
      await page.keyboard.press('k');
      await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor();
    });
  });

  test('rotate a key once, though the response is lost and the request retried', async () => {
    const { body } = await dashboard.administrator.post<{ id: string }>('/api/v1/keys', { name: 'turned' });
    await on('/keys', async (page) => {
      await choose(page, 'turned', 'Rotate secret');
      await page.route('**/rotate', async (route) => {
        await route.fetch();
        await route.abort();
      });
      await page.getByRole('button', { name: 'Rotate key', exact: true }).click();
      await page.getByRole('dialog').getByText('The server is not responding').waitFor();
      await page.unroute('**/rotate');
      await page.getByRole('button', { name: 'Try again' }).click();
      await page.getByText('the response with the new secret was lost').waitFor();
      expect(await rotations(body.id)).toBe(1);

      await page.getByRole('button', { name: 'Rotate again' }).click();
      await page.getByRole('button', { name: 'Rotate key', exact: true }).click();
      await page.getByText('won’t be able to see it again').waitFor();
      expect(await rotations(body.id)).toBe(2);
    });
  });

  test('explain why a request would be rejected, and what to do', async () => {
    await dashboard.administrator.post('/api/v1/keys', {
      name: 'kept in',
      terms: { networks: ['10.0.0.0/8'] },
    });
    await on('/keys', async (page) => {
      await choose(page, 'kept in', 'Test access');
      await page.getByLabel('Model').fill('daybook-demo');
      await page.getByLabel('IP address').fill('192.0.2.1');
      await page.keyboard.press('Enter');
      await page.getByText('The request would be rejected').waitFor();
      const text = await page.getByRole('dialog').innerText();
      expect(text).toContain('network_not_allowed');
      expect(text).toContain('Add the address');
      await page.getByLabel('IP address').fill('10.1.2.3');
      await page.keyboard.press('Enter');
      await page.getByText('The request would be accepted').waitFor();
    });
  });

  test('show an invitation once, and explain why the last administrator keeps the role', async () => {
    await on('/admin/members', async (page) => {
      await page.keyboard.press('n');
      await page.getByRole('button', { name: 'Create link' }).click();
      await page.getByText('won’t be able to see it again').waitFor();
      const token = /\/join#([0-9A-Za-z]{43})/.exec(await page.getByRole('dialog').innerText())?.[1] ?? '';
      expect(token).not.toBe('');
      await page.getByRole('button', { name: 'Done' }).click();
      await page.getByText('invitation.created').waitFor();
      expect(await kept(page)).not.toContain(token);

      await choose(page, dashboard.administrator.email, 'Change role');
      await page.getByLabel('Auditor').check();
      await page.getByRole('dialog').getByRole('button', { name: 'Change role' }).click();
      await page.getByText('This is the last administrator').waitFor();
    });
  });

  test('keep every typed letter of a filter, and follow the URL when it changes', async () => {
    await on('/keys', async (page) => {
      const field = page.getByRole('searchbox', { name: 'Search by name or ID' });
      await field.pressSequentially('no such key');
      await page.getByText('No matching keys').waitFor();
      expect(await field.inputValue()).toBe('no such key');
      expect(new URL(page.url()).searchParams.get('name')).toBe('no such key');
      await page.getByRole('button', { name: /^Show all/ }).click();
      await until(
        () => field.inputValue(),
        (value) => value === '',
        'the filter',
      );
    });
  });

  test('open a collapsed section with an invalid field', async () => {
    await on('/keys', async (page) => {
      await page.keyboard.press('n');
      await page.keyboard.type('wrong');
      const [fold, field] = [page.getByText('Restrict this key'), page.getByLabel('Requests per minute')];
      await fold.click();
      await field.fill('many');
      await fold.click();
      await field.waitFor({ state: 'hidden' });
      await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
      await field.waitFor();
      expect(await keysNamed('wrong')).toEqual([]);
    });
  });

  test('correct a request once for each reference, and adjust the usage of an account', async () => {
    const { administrator, relay } = dashboard;
    const account = administrator.me.account;
    const quotas = [{ meter: 'tokens', window: 'day', limit: 100_000 }];
    await administrator.put('/api/v1/plans/counted', { terms: { quotas } });
    await administrator.put(`/api/v1/accounts/${account.id}/plan`, { plan: 'counted' });
    await callDemo(relay, relay.key);
    const newest = async () =>
      (await administrator.get<RequestPage>(`/api/v1/requests?account=${account.id}`)).body.data[0];
    const row = await until(newest, (each) => each?.outcome === 'completed', 'the request in the tables');
    await on(`/requests?request=${row?.request}`, async (page) => {
      const dialog = page.getByRole('dialog');
      const correct = async (tokens: [input: string, output: string], reason: string): Promise<void> => {
        await page.getByRole('button', { name: 'Correct request' }).click();
        const [input, output] = ['Input tokens', 'Output tokens'].map((label) => dialog.getByLabel(label));
        await input?.fill(tokens[0]);
        await output?.fill(tokens[1]);
        await dialog.getByLabel('Reason', { exact: true }).fill(reason);
        await dialog.getByLabel('Reference').fill('bill 17');
        expect(await violations(page)).toEqual([]);
        await dialog.getByRole('button', { name: 'Correct request' }).click();
      };
      await correct(['0', '0'], 'charged twice by the provider');
      await dialog.getByText('usage.adjusted').waitFor();
      await correct(['1', '1'], 'again');
      await dialog.getByText('already').waitFor();
      await dialog.getByRole('button', { name: 'Back' }).click();
      const correction = page.getByRole('listitem').filter({ hasText: 'charged twice by the provider' });
      await correction.getByText('bill 17').waitFor();
    });
    await on(`/admin/accounts?account=${account.id}`, async (page) => {
      await page.getByRole('button', { name: 'Adjust usage' }).click();
      await page.getByLabel('Units', { exact: true }).fill('12');
      await page.getByLabel('Add units').check();
      await page.getByLabel('Reason').fill('calls made elsewhere');
      await page.getByRole('dialog').getByRole('button', { name: 'Adjust usage' }).click();
      await page.getByRole('listitem').filter({ hasText: 'calls made elsewhere' }).waitFor();
    });
    const { body } = await administrator.get<LimitList>(`/api/v1/limits?account=${account.id}`);
    expect(body.data.find(({ window }) => window === 'day')?.used).toBe(12);
  });

  test('filter by an end user as typed, in no address, and erase it', async () => {
    const { relay, administrator } = dashboard;
    const made = await administrator.post<{ secret: string }>('/api/v1/keys', { name: 'attributed' });
    const value = 'ada.lovelace@example.com';
    const body = { model: 'daybook-demo', messages: [{ role: 'user', content: 'hi' }] };
    const headers = { 'x-daybook-user': value };
    expect((await chat({ port: relay.port, key: made.body.secret, headers, body })).status).toBe(200);
    const account = administrator.me.account.id;
    await on(`/requests?account=${account}`, async (page) => {
      const addresses: string[] = [];
      let lookUps = 0;
      page.on('request', (request) => {
        addresses.push(request.url());
        if (new URL(request.url()).pathname.endsWith('/attribution')) lookUps++;
      });
      await page.getByLabel('Filter requests').fill(`user:${value}`);
      await page.keyboard.press('Enter');
      const chip = page.getByRole('button', { name: `Remove filter end user ${value}` });
      await chip.waitFor();
      await page.waitForURL(/[?&]end_user=[0-9A-Za-z]{16}/);
      await page.getByRole('row').filter({ hasText: 'daybook-demo' }).first().click();
      await page.getByRole('button', { name: 'Erase end user' }).click();
      const erase = page.getByRole('button', { name: 'Erase end user' });
      expect(await erase.isDisabled()).toBe(true);
      await page.getByLabel('Type the end user to confirm').fill(value);
      expect(await violations(page)).toEqual([]);
      await erase.click();
      await page.getByText('The value of the end user is erased.').waitFor();
      await page.getByRole('dialog').getByText('erased', { exact: true }).waitFor();
      expect(await kept(page)).not.toContain(value);
      expect(addresses.filter((each) => decodeURIComponent(each).includes(value))).toEqual([]);
      expect(lookUps).toBeLessThan(10);
    });
    const log = await relay.readLog();
    expect(log.filter(({ event }) => event.type === 'attribution.erased')).toHaveLength(1);
  });
});
