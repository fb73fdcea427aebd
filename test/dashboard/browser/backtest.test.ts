import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RequestPage } from '#server/contract/requests.ts';
import { violations } from '../../support/browser/axe.ts';
import { HAS_BROWSER, settled, type Visitor } from '../../support/browser/browser.ts';
import { startDashboard, type TestDashboard } from '../../support/browser/dashboard-browser.ts';
import { callDemo } from '../../support/dashboard.ts';
import { until } from '../../support/relay.ts';

/** Changes of terms and prices that are checked against recorded calls, and limits that are observed. */
describe.skipIf(!HAS_BROWSER)('checks against last month, and observed limits', () => {
  let dashboard: TestDashboard;
  let visitor: Visitor;
  beforeAll(async () => {
    dashboard = await startDashboard();
    const { administrator, relay } = dashboard;
    await administrator.put('/api/v1/plans/team', {
      terms: { requests_per_minute: 600, quotas: [OBSERVED] },
    });
    await administrator.put(`/api/v1/accounts/${administrator.me.account.id}/plan`, { plan: 'team' });
    const { secret } = (await administrator.post<{ secret: string }>('/api/v1/keys', { name: 'app' })).body;
    for (let call = 0; call < 4; call++) expect(await callDemo(relay, secret)).toBe('200');
    await until(requests, ({ data }) => data.length === 4, 'the requests are listed');
    visitor = await dashboard.visit(administrator);
  });
  afterAll(() => dashboard?.[Symbol.asyncDispose]());

  const OBSERVED = { meter: 'requests', window: 'month', limit: 3, enforcement: 'observe' } as const;
  const requests = async (): Promise<RequestPage> =>
    (await dashboard.administrator.get<RequestPage>('/api/v1/requests')).body;
  const terms = async (): Promise<unknown> =>
    (await dashboard.administrator.get<{ data: { terms: unknown }[] }>('/api/v1/plans')).body.data[0]?.terms;

  async function on(path: string, use: (page: Page) => Promise<void>): Promise<void> {
    const page = await visitor.context.newPage();
    await page.goto(path);
    await settled(page);
    await use(page);
    await page.close();
    expect(visitor.problems.splice(0)).toEqual([]);
  }

  test('show the calls that changed terms would have rejected, and save nothing', async () => {
    const before = await terms();
    await on('/admin/plans', async (page) => {
      await page.getByRole('button', { name: 'Edit plan team' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('When exhausted').selectOption('soft');
      await dialog.getByRole('button', { name: 'Check', exact: true }).click();
      await dialog.getByText('1 of 4 admitted calls').waitFor();
      await dialog.getByRole('region', { name: 'Rejected calls' }).getByText('app').waitFor();
      await dialog.getByRole('region', { name: 'Limits hit' }).getByText('Monthly requests').waitFor();
      expect(await violations(page)).toEqual([]);
      // Other terms are another check.
      await dialog.getByLabel('Requests per minute').first().fill('500');
      await dialog.getByRole('button', { name: 'Check', exact: true }).waitFor();
      expect(await dialog.getByText('1 of 4 admitted calls').count()).toBe(0);
    });
    expect(await terms()).toEqual(before);
  });

  test('show what a price would have charged', async () => {
    await on('/admin/models', async (page) => {
      await page.getByRole('button', { name: 'Set price' }).first().click();
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Model').fill('daybook-demo*');
      expect(await dialog.getByRole('button', { name: 'Check', exact: true }).isDisabled()).toBe(true);
      await dialog.getByLabel('Input').fill('250');
      await dialog.getByRole('button', { name: 'Check', exact: true }).click();
      await dialog.getByText('None of 4 admitted calls would have been rejected.').waitFor();
      await dialog.getByRole('region', { name: 'Charges by account and model' }).waitFor();
      expect(await violations(page)).toEqual([]);
    });
  });

  test('mark the calls that an observed limit would have rejected, and the limit', async () => {
    expect((await requests()).data.map(({ observed }) => observed)).toEqual([1, null, null, null]);
    await on('/requests', async (page) => {
      expect(await page.getByText('Would be rejected').count()).toBe(1);
      await page.keyboard.press('j');
      await page.keyboard.press('Enter');
      await page.getByText('These limits would have rejected the request').waitFor();
      await page.getByText('Monthly requests of the account: 3').first().waitFor();
      await page.getByText('1 needed, 0 free').waitFor();
    });
    await on('/limits', async (page) => {
      await page.getByText('Observed', { exact: true }).first().waitFor();
      await page.getByText('Requests would be rejected until the reset.').first().waitFor();
    });
  });

  test('offer rates to observe as far as they are set', async () => {
    await on('/admin/plans', async (page) => {
      await page.getByRole('button', { name: 'Edit plan team' }).click();
      const dialog = page.getByRole('dialog');
      expect(await dialog.getByLabel('Observe tokens per minute').count()).toBe(0);
      await dialog.getByLabel('Observe requests per minute').check();
      await dialog.getByRole('button', { name: 'Save changes' }).click();
      await dialog.waitFor({ state: 'detached' });
    });
    expect(await terms()).toMatchObject({ requests_per_minute: 600, observe: ['requests_per_minute'] });
  });
});
