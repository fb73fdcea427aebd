import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { HAS_BROWSER, type Visitor } from '../../support/browser/browser.ts';
import { startDashboard, type TestDashboard } from '../../support/browser/dashboard-browser.ts';
import { callDemo } from '../../support/dashboard.ts';
import { startProvider, type TestProvider } from '../../support/oidc/provider.ts';

/** A person's way through an OpenID provider, in a real browser. The steps depend on each other. */
describe.skipIf(!HAS_BROWSER)('a person of an identity provider', () => {
  let dashboard: TestDashboard;
  let provider: TestProvider;
  let admin: Visitor;
  let person: Visitor;
  let key = '';

  beforeAll(async () => {
    dashboard = await startDashboard();
    const { relay, origin } = dashboard;
    provider = await startProvider([`${origin}/sign-in/acme-sso/callback`]);
    await relay.createAccount('Engineering');
    key = (await relay.createKey({ account: 'Engineering' })).secret;
    admin = await dashboard.visit(dashboard.administrator);
    person = await dashboard.visit(null);
  }, 120_000);
  afterAll(async () => {
    await dashboard?.[Symbol.asyncDispose]();
    await provider?.[Symbol.asyncDispose]();
  });

  const give = (...groups: string[]) =>
    provider.people.set('ana', { email: 'ana@acme.example', email_verified: true, groups });
  /** Signs in at the provider, whose pages are its own. */
  const enter = async (): Promise<void> => {
    const { page, context } = person;
    await context.clearCookies();
    await page.goto(`${dashboard.origin}/sign-in`);
    await page.getByRole('link', { name: 'Continue with Acme SSO' }).click();
    await page.getByPlaceholder('Enter any login').fill('ana');
    await page.getByPlaceholder('and password').fill('any');
    await page.getByRole('button', { name: 'Sign-in' }).click();
    await page.getByRole('button', { name: 'Continue' }).click();
  };

  test('is let in by a provider that an administrator adds on the page', async () => {
    const { page } = admin;
    await page.goto(`${dashboard.origin}/admin/members`);
    await page.getByRole('button', { name: 'Add provider' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name on the button').fill('Acme SSO');
    await dialog.getByText(`${dashboard.origin}/sign-in/acme-sso/callback`).waitFor();
    await dialog.getByLabel('Issuer').fill(provider.issuer);
    await dialog.getByLabel('Client ID').fill(provider.clientId);
    await dialog.getByLabel('Client secret').fill(provider.clientSecret);
    await dialog.getByLabel('Group of rule 1').fill('auditors');
    await dialog.getByLabel('Role of rule 1').selectOption('auditor');
    await dialog.getByLabel('Account of rule 1').selectOption('Engineering');
    await dialog.getByRole('button', { name: 'Add rule' }).click();
    await dialog.getByLabel('Group of rule 2').fill('engineers');
    await dialog.getByLabel('Account of rule 2').selectOption('Engineering');
    await dialog.getByLabel('When the last member').selectOption('suspend');
    await dialog.getByText('Advanced').click();
    await dialog.getByLabel('Scopes').fill('email groups');
    await dialog.getByLabel('Allow a private network').check();
    await dialog.getByRole('button', { name: 'Add provider' }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('region', { name: 'Identity providers' }).getByText('engineers').waitFor();

    give('engineers');
    await enter();
    await person.page.getByRole('heading', { level: 1 }).waitFor();
    await person.page.goto(`${dashboard.origin}/settings`);
    await person.page.getByText('ana@acme.example').first().waitFor();
    await person.page.getByText('You sign in through your organization’s identity provider').waitFor();
    expect(await person.page.getByLabel('New password').count()).toBe(0);
    await page.getByRole('region', { name: 'Members' }).getByText('ana@acme.example').waitFor();
  });

  test('has another role after their groups changed', async () => {
    give('engineers', 'auditors');
    await enter();
    await person.page.goto(`${dashboard.origin}/settings`);
    await person.page.getByText('Auditor', { exact: true }).first().waitFor();
  });

  test('loses access with their groups, and the keys of their account are rejected', async () => {
    expect(await callDemo(dashboard.relay, key)).toBe('200');
    give();
    await enter();
    await person.page.getByRole('alert').getByText('None of your groups has access').waitFor();
    expect(await callDemo(dashboard.relay, key)).toBe('403 account_disabled');
    await person.page.goto(`${dashboard.origin}/settings`);
    await person.page.getByRole('heading', { name: 'Sign in' }).waitFor();
    expect([...admin.problems, ...person.problems]).toEqual([]);
  });
});
