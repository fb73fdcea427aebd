import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { HAS_BROWSER, type Visitor } from '../../support/browser/browser.ts';
import { chat } from '../../support/client.ts';
import { PASSWORD, signIn } from '../../support/dashboard.ts';
import { startInstallation, type TestInstallation } from '../../support/browser/dashboard-browser.ts';

/** A team from the first start to its daily work, in real browsers. The steps depend on each other. */
describe.skipIf(!HAS_BROWSER)('a team', () => {
  let installation: TestInstallation;
  let ada: Visitor;
  let grace: Visitor;
  let secret = '';

  beforeAll(async () => {
    installation = await startInstallation();
    ada = await installation.visit(null);
    grace = await installation.visit(null);
  });
  afterAll(() => installation?.[Symbol.asyncDispose]());

  const button = (page: Page, name: string | RegExp) =>
    page.getByRole('button', { name, exact: typeof name === 'string' });
  const shows = (page: Page, text: string | RegExp) =>
    page.getByText(text).filter({ visible: true }).first().waitFor({ timeout: 60_000 });
  /** Navigates without a page load. */
  const go = async (page: Page, name: string): Promise<void> => {
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true }).click();
    await page.getByRole('heading', { level: 1, name, exact: true }).waitFor();
  };
  const call = (key: string, model = 'daybook-demo') =>
    chat({
      port: installation.relay.port,
      key,
      body: { model, messages: [{ role: 'user', content: 'Hello' }] },
    });
  const everyAddress = (visitor: Visitor): string[] => {
    const seen: string[] = [];
    visitor.page.on('request', (request) => seen.push(request.url()));
    return seen;
  };

  test('sets up an administrator by the setup link, whose token leaves the URL immediately', async () => {
    const { page } = ada;
    const link = (await readFile(path.join(installation.relay.dataDir, 'setup-link.txt'), 'utf8')).trim();
    const addresses = everyAddress(ada);
    await page.goto(link);
    await page.getByLabel('Email').fill('ada@example.com');
    expect(page.url()).not.toContain('#');
    await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
    await button(page, 'Set up').click();
    await page.getByRole('heading', { name: 'First call' }).waitFor();
    expect(addresses.filter((address) => address.includes(link.split('#')[1] ?? ''))).toEqual([]);
  });

  test('opens sign-up; a new member starts on First call', async () => {
    const administrator = await signIn(installation.relay, 'ada@example.com');
    expect(
      (await administrator.put('/api/v1/plans/free', { terms: { requests_per_minute: 600 } })).status,
    ).toBe(200);
    await go(ada.page, 'Members');
    await ada.page.getByLabel('Open', { exact: true }).check();
    await shows(ada.page, /^Select a plan/);
    const save = ada.page
      .locator('section', { hasText: 'Plan for new accounts' })
      .getByRole('button', { name: 'Save' });
    expect(await save.isDisabled()).toBe(true);
    await ada.page.getByLabel('Plan for new accounts').selectOption('free');
    await save.click();
    await shows(ada.page, 'registration.changed');
    const { page } = grace;
    await page.goto(`${installation.origin}/register`);
    await page.getByLabel('Email').fill('grace@example.com');
    await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
    await page.getByLabel(/account/i).fill('Globex');
    await button(page, 'Sign up').click();
    await page.getByRole('heading', { name: 'First call' }).waitFor();
  });

  test('creates a key with one click and sees its first request live; the secret is in no URL', async () => {
    const { page } = grace;
    const addresses = everyAddress(grace);
    await button(page, 'Create key').click();
    secret = (await page.locator('[data-secret]').textContent()) ?? '';
    expect(secret).toMatch(/^dbk_/);
    await button(page, 'Send test request').click();
    await shows(page, /Completed\. Time to first token/);
    await shows(page, 'Completed');
    // Also from another client.
    await call(secret, 'daybook-demo-fail');
    await shows(page, /Upstream error/);
    // Leaving loses the secret, so the page asks.
    await page.getByRole('link', { name: 'View request' }).first().click();
    await button(page, 'Stay on page').click();
    expect(await page.locator('[data-secret]').textContent()).toBe(secret);
    await page.getByRole('link', { name: 'API keys', exact: true }).click();
    await button(page, 'Leave page').click();
    await page.getByRole('heading', { level: 1, name: 'API keys', exact: true }).waitFor();
    expect(await page.content()).not.toContain(secret);
    expect(addresses.filter((address) => address.includes(secret))).toEqual([]);
    expect(
      await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }, history.state])'),
    ).not.toContain('dbk_');
  });

  test('rotates a key with an overlap: both secrets work, and the list says so', async () => {
    const { page } = grace;
    await button(page, 'Actions for first key').click();
    await button(page, 'Rotate secret').click();
    await page.getByLabel('In 1 hour').check();
    await button(page, 'Rotate key').click();
    await shows(page, /won’t be able to see it again/);
    const renewed = (await page.getByRole('dialog').locator('code').first().textContent()) ?? '';
    await button(page, 'Done').click();
    expect(await page.content()).not.toContain(renewed);
    expect([(await call(secret)).status, (await call(renewed)).status]).toEqual([200, 200]);
    await shows(page, /Rotating/i);
    secret = renewed;
  });

  test('sees live that a quota is reached and a request rejected', async () => {
    const { page } = grace;
    await go(page, 'Overview');
    const administrator = await signIn(installation.relay, 'ada@example.com');
    expect(
      (
        await administrator.put('/api/v1/plans/tiny', {
          terms: { quotas: [{ meter: 'requests', window: 'day', limit: 2, enforcement: 'hard' }] },
        })
      ).status,
    ).toBe(200);
    const { body } = await administrator.get<{ data: { id: string; name: string }[] }>('/api/v1/accounts');
    const account = body.data.find(({ name }) => name === 'Globex')?.id ?? '';
    expect(
      (await administrator.put(`/api/v1/accounts/${account}/plan`, { plan: 'tiny', windows: 'reset' }))
        .status,
    ).toBe(200);
    await shows(page, /of 2 used/);
    for (let left = 3; left > 0; left--) await call(secret);
    await shows(page, /2 of 2 used/);
    await go(page, 'Requests');
    await shows(page, 'insufficient_quota');
  });

  test('sees immediately that its account is suspended', async () => {
    const administrator = await signIn(installation.relay, 'ada@example.com');
    const { body } = await administrator.get<{ data: { id: string; name: string }[] }>('/api/v1/accounts');
    const account = body.data.find(({ name }) => name === 'Globex')?.id ?? '';
    expect((await administrator.post(`/api/v1/accounts/${account}/suspend`)).status).toBe(200);
    await shows(grace.page, 'This account is suspended');
    expect((await call(secret)).status).toBe(403);
  });

  test('shows members their own data only, and the administrator everything', async () => {
    await go(grace.page, 'Requests');
    await go(ada.page, 'Requests');
    await shows(ada.page, 'Globex');
    expect(await grace.page.getByRole('link', { name: 'Accounts' }).count()).toBe(0);
    const own = await grace.page.evaluate<string>("fetch('/api/v1/keys').then((reply) => reply.text())");
    expect(own).not.toContain(installation.relay.key.slice(4, 12));
    expect(await grace.page.evaluate<number>("fetch('/api/v1/accounts').then((reply) => reply.status)")).toBe(
      403,
    );
  });

  test('shows what the new role may see after a role change, and nothing else', async () => {
    const administrator = await signIn(installation.relay, 'ada@example.com');
    const { body } = await administrator.get<{ data: { id: string; email: string }[] }>('/api/v1/members');
    const id = body.data.find(({ email }) => email === 'grace@example.com')?.id ?? '';
    await go(grace.page, 'API keys');
    for (const [role, seen] of [
      ['auditor', 1],
      ['member', 0],
    ] as const) {
      const renewed = grace.page.waitForResponse((reply) => reply.url().includes('/api/v1/keys'));
      await administrator.patch(`/api/v1/members/${id}`, { role });
      await renewed;
      await shows(grace.page, new RegExp(`· ${role}$`, 'i'));
      expect(await grace.page.getByRole('link', { name: 'Accounts' }).count()).toBe(seen);
    }
  });

  test('signs out everywhere: other browsers are signed out immediately, live pages included', async () => {
    const other = await installation.visit(await signIn(installation.relay, 'grace@example.com'));
    await other.page.goto('/requests');
    await shows(other.page, 'insufficient_quota');
    await go(grace.page, 'Settings');
    await button(grace.page, 'Sign out everywhere').click();
    await grace.page.getByRole('dialog').getByRole('button', { name: 'Sign out everywhere' }).click();
    await grace.page.waitForURL(/sign-in/);
    await other.page.waitForURL(/sign-in/);
    await other.context.close();
  });

  test('caused no page errors', () => {
    expect([...ada.problems, ...grace.problems]).toEqual([]);
  });
});
