import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { KeyList } from '#server/contract/keys.ts';
import { violations } from '../../support/browser/axe.ts';
import { HAS_BROWSER, settled, type Visitor } from '../../support/browser/browser.ts';
import { startDashboard, type TestDashboard } from '../../support/browser/dashboard-browser.ts';
import { until } from '../../support/relay.ts';

const SECRET = /dbk_[0-9A-Za-z]{8}_[0-9A-Za-z]{49}/;

/** What people do with keys and invitations by the pages for them. */
describe.skipIf(!HAS_BROWSER)('the pages of keys and members', () => {
  let dashboard: TestDashboard;
  let visitor: Visitor;
  beforeAll(async () => {
    dashboard = await startDashboard();
    visitor = await dashboard.visit(dashboard.administrator);
  });
  afterAll(() => dashboard?.[Symbol.asyncDispose]());

  /** In a page of its own, of a browser that knows the files of all pages. */
  async function on(path: string, use: (page: Page) => Promise<void>): Promise<void> {
    const page = await visitor.context.newPage();
    await page.goto(path);
    await settled(page);
    await use(page);
    await page.close();
    expect(visitor.problems.splice(0)).toEqual([]);
  }

  /**
   * All that a page keeps: its document, what stands in its fields, its address, and the browser's stores.
   */
  const kept = (page: Page): Promise<string> =>
    page.evaluate<string>(`[document.documentElement.outerHTML, ...[...document.querySelectorAll('input, textarea')].map((field) => field.value),
      location.href, JSON.stringify(history.state), JSON.stringify(localStorage), JSON.stringify(sessionStorage), document.title].join('\\n')`);

  const keysNamed = async (name: string): Promise<KeyList['data']> =>
    (await dashboard.administrator.get<KeyList>('/api/keys')).body.data.filter((key) => key.name === name);
  const rotations = async (id: string): Promise<number> =>
    (await dashboard.relay.readLog()).filter(({ event }) => event.type === 'key.rotated' && event.key === id)
      .length;

  async function choose(page: Page, name: string, action: string): Promise<void> {
    await page.getByRole('button', { name: `Actions for ${name}` }).click();
    await page.getByRole('button', { name: action, exact: true }).click();
  }

  test('make a key as it was filled in, by keyboard, show its secret once, and keep nothing of it', async () => {
    await on('/keys', async (page) => {
      await page.keyboard.press('n');
      await page.keyboard.type('by hand');
      // Who marks what a field says may let go beside the dialog.
      await page.getByLabel('Name', { exact: true }).hover();
      await page.mouse.down();
      await page.mouse.move(2, 2);
      await page.mouse.up();
      await page.getByText('Narrow it').click();
      await page.getByLabel('Only these').first().check();
      await page.getByRole('combobox', { name: 'Models' }).fill('daybook-demo');
      await page.getByLabel('Requests a minute').fill('1.5k');
      await page.getByRole('button', { name: 'Add a quota' }).click();
      await page.getByLabel('At most').fill('12.50');
      await page.getByRole('button', { name: 'Create the key' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByText('You will not see this again').waitFor();
      const secret = SECRET.exec(await dialog.innerText())?.[0] ?? '';
      expect(secret).not.toBe('');
      expect(await dialog.locator('pre').innerText()).toContain(`Bearer ${secret}`);
      expect(await violations(page)).toEqual([]);

      await page.keyboard.press('Escape');
      await page.keyboard.press('Escape');
      await page.keyboard.press('Control+k');
      expect(await dialog.innerText()).toContain(secret);

      await page.getByRole('button', { name: 'I have kept it' }).click();
      await page.getByText('key.restricted').waitFor();
      const rest = await kept(page);
      expect(rest).toContain(secret.slice(-4));
      expect(rest).not.toContain(secret);
      expect(rest).not.toMatch(SECRET);
    });
    const terms = {
      models: ['daybook-demo'],
      requests_per_minute: 1_500,
      quotas: [{ meter: 'cost_microusd', window: 'month', limit: 12_500_000, enforcement: 'soft' }],
    };
    expect(await keysNamed('by hand')).toMatchObject([{ terms }]);
  });

  test('take a reply that was cut for none, and show the keys once it comes whole', async () => {
    await on('/settings', async (page) => {
      await page.route('**/api/keys*', (route) =>
        route.fulfill({ contentType: 'application/json', body: '{"object":"list","data":[' }),
      );
      await page.getByRole('link', { name: 'API keys' }).click();
      await page.getByText('The server does not answer').waitFor();
      await page.unroute('**/api/keys*');
      await page.getByRole('button', { name: 'Try again' }).click();
      await page.getByText('by hand').first().waitFor();
    });
  });

  test('do nothing at a single key once that is turned off', async () => {
    await on('/settings', async (page) => {
      await page.getByLabel('Single-key shortcuts').uncheck();
      await page.getByRole('heading', { name: 'Settings' }).click();
      await page.keyboard.press('g');
      await page.keyboard.press('k');
      await page.keyboard.press('Control+k');
      await page.getByRole('combobox', { name: 'Page or action' }).waitFor();
      await page.keyboard.press('Escape');
      expect(new URL(page.url()).pathname).toBe('/settings');
      await page.getByLabel('Single-key shortcuts').check();
      await page.getByRole('heading', { name: 'Settings' }).click();
      await page.keyboard.press('g');
      await page.keyboard.press('k');
      await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor();
    });
  });

  test('rotate a key once, though the reply to it gets lost and it is sent again', async () => {
    const { body } = await dashboard.administrator.post<{ id: string }>('/api/keys', { name: 'turned' });
    await on('/keys', async (page) => {
      await choose(page, 'turned', 'Rotate the secret');
      await page.route('**/rotate', async (route) => {
        await route.fetch();
        await route.abort();
      });
      await page.getByRole('button', { name: 'Rotate', exact: true }).click();
      await page.getByRole('dialog').getByText('The server does not answer').waitFor();
      await page.unroute('**/rotate');
      await page.getByRole('button', { name: 'Try again' }).click();
      await page.getByText('the reply with the new secret got lost').waitFor();
      expect(await rotations(body.id)).toBe(1);

      await page.getByRole('button', { name: 'Prepare another rotation' }).click();
      await page.getByRole('button', { name: 'Rotate', exact: true }).click();
      await page.getByText('You will not see this again').waitFor();
      expect(await rotations(body.id)).toBe(2);
    });
  });

  test('tell why a call would be refused, and what to do about it', async () => {
    await dashboard.administrator.post('/api/keys', { name: 'kept in', terms: { networks: ['10.0.0.0/8'] } });
    await on('/keys', async (page) => {
      await choose(page, 'kept in', 'Would this call pass?');
      await page.getByLabel('Model').fill('daybook-demo');
      await page.getByLabel('Address').fill('192.0.2.1');
      await page.keyboard.press('Enter');
      await page.getByText('It would be refused').waitFor();
      const told = await page.getByRole('dialog').innerText();
      expect(told).toContain('network_not_allowed');
      expect(told).toContain('Add the address');
      await page.getByLabel('Address').fill('10.1.2.3');
      await page.keyboard.press('Enter');
      await page.getByText('It would pass').waitFor();
    });
  });

  test('show an invitation once, and say why the last administrator stays one', async () => {
    await on('/admin/members', async (page) => {
      await page.keyboard.press('n');
      await page.getByRole('button', { name: 'Make the link' }).click();
      await page.getByText('You will not see this again').waitFor();
      const token = /\/join#([0-9A-Za-z]{43})/.exec(await page.getByRole('dialog').innerText())?.[1] ?? '';
      expect(token).not.toBe('');
      await page.getByRole('button', { name: 'I have kept it' }).click();
      await page.getByText('invitation.created').waitFor();
      expect(await kept(page)).not.toContain(token);

      await choose(page, dashboard.administrator.email, 'Change the role');
      await page.getByLabel('Auditor').check();
      await page.getByRole('dialog').getByRole('button', { name: 'Change the role' }).click();
      await page.getByText('This is the last administrator').waitFor();
    });
  });

  test('keep each letter that is typed into a filter, and follow the address where that changes', async () => {
    await on('/keys', async (page) => {
      const field = page.getByRole('searchbox', { name: 'Name or id' });
      await field.pressSequentially('no such key');
      await page.getByText('No key fits').waitFor();
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

  test('show a field that is wrong, though it was folded away', async () => {
    await on('/keys', async (page) => {
      await page.keyboard.press('n');
      await page.keyboard.type('wrong');
      const [fold, field] = [page.getByText('Narrow it'), page.getByLabel('Requests a minute')];
      await fold.click();
      await field.fill('many');
      await fold.click();
      await field.waitFor({ state: 'hidden' });
      await page.getByRole('button', { name: 'Create the key' }).click();
      await field.waitFor();
      expect(await keysNamed('wrong')).toEqual([]);
    });
  });
});
