import { rename } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { UpstreamList } from '#server/contract/upstreams.ts';
import { violations } from '../support/browser/axe.ts';
import { HAS_BROWSER, settled, type Visitor } from '../support/browser/browser.ts';
import { chat, type ChatReply } from '../support/client.ts';
import { addMember } from '../support/dashboard.ts';
import { startDashboard, type TestDashboard } from '../support/browser/dashboard-browser.ts';
import { ask } from '../support/database.ts';
import { until } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/**
 * The changes of administrators to upstreams, credentials and custom models on the Upstreams page. The order
 * matters: each test continues where the previous one ended.
 */
describe.skipIf(!HAS_BROWSER)('Upstreams page', () => {
  const SECRET = 'sk-first-5f1c7d9e2b8a4036';
  const WRONG = 'sk-wrong-0a1b2c3d4e5f6789';
  let first: ScriptedUpstream;
  let second: ScriptedUpstream;
  let dashboard: TestDashboard;
  let visitor: Visitor;
  let page: Page;
  /** Everything that the server sent to the browser, in responses and in the live feed. */
  const received: string[] = [];

  beforeAll(async () => {
    [first, second] = await Promise.all([startUpstream({ apiKey: SECRET }), startUpstream()]);
    first.script('a', 'tokens=2');
    second.script('b', 'tokens=2');
    dashboard = await startDashboard();
    visitor = await dashboard.visit(dashboard.administrator);
    page = await visitor.context.newPage();
    page.on('response', (response) => {
      if (new URL(response.url()).pathname.startsWith('/api/v1/'))
        response.text().then(
          (text) => received.push(text),
          () => {},
        );
    });
    page.on('websocket', (socket) =>
      socket.on('framereceived', ({ payload }) => received.push(payload.toString())),
    );
    await page.goto('/admin/upstreams');
    await settled(page);
  });
  afterAll(async () => {
    await dashboard?.[Symbol.asyncDispose]();
    await Promise.all([first?.close(), second?.close()]);
  });

  const dialog = () => page.getByRole('dialog');
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
  /** The button of a form's dialog, where the page behind it has one of the same name. */
  const submit = (name: string) => dialog().getByRole('button', { name, exact: true }).click();
  const networkAccess = (name: string) => dialog().getByLabel(name);
  const rowOf = (name: string) =>
    page
      .getByRole('row')
      .filter({ has: page.getByRole('button', { name: `Upstream ${name}`, exact: true }) });
  const call = (): Promise<ChatReply> =>
    chat({
      port: dashboard.relay.port,
      key: dashboard.relay.key,
      body: { model: 'fast', messages: [{ role: 'user', content: 'x' }] },
    });
  const listed = async (): Promise<UpstreamList['data']> =>
    (await dashboard.administrator.get<UpstreamList>('/api/v1/upstreams')).body.data;

  /** The state of the page: its document, the values of its fields, its URL, and the browser's storage. */
  const pageState = (): Promise<string> =>
    page.evaluate<string>(`[
      document.documentElement.outerHTML,
      ...[...document.querySelectorAll('input, textarea')].map((field) => field.value),
      location.href,
      JSON.stringify(history.state),
      JSON.stringify(localStorage),
      JSON.stringify(sessionStorage),
    ].join('\\n')`);

  async function choose(name: string, action: string): Promise<void> {
    await press(`Actions for ${name}`);
    await press(action);
  }

  async function addCredential(label: string, secret: string): Promise<void> {
    await page.getByLabel('Label').fill(label);
    await page.getByLabel('Secret').fill(secret);
    await press('Add credential');
    await dialog().getByText('upstream.credential_added').waitFor();
  }

  test('adds one by keyboard and explains at its base URL why a private address is rejected', async () => {
    await page.getByText('Only the built-in demo is configured').waitFor();
    await page.keyboard.press('n');
    await dialog().getByLabel('Provider', { exact: true }).selectOption('ollama');
    expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('ollama');
    expect(await networkAccess('Public internet, localhost and private networks').isChecked()).toBe(true);
    await dialog().getByLabel('Provider', { exact: true }).selectOption('openai');
    expect(await page.getByLabel('Base URL').inputValue()).toBe('https://api.openai.com/v1');
    expect(await networkAccess('Public internet only').isChecked()).toBe(true);
    await page.getByLabel('Name', { exact: true }).fill('first');
    await page.getByLabel('Base URL').fill(first.baseUrl);
    await submit('Add upstream');
    await page.getByRole('alert').getByText('is on this machine or in a private network').waitFor();
    expect(await page.getByLabel('Base URL').getAttribute('aria-invalid')).toBe('true');
    expect(await listed()).toHaveLength(1);
    await networkAccess('Public internet, localhost and private networks').check();
    await submit('Add upstream');
    await dialog().getByRole('heading', { name: 'Upstream first' }).waitFor();
    expect(await listed()).toMatchObject([
      {
        name: 'first',
        source: 'log',
        terms: { dialect: 'openai', network: 'private', models: ['gpt-*', 'o*', 'text-embedding-*'] },
      },
      { name: 'demo', source: 'demo' },
    ]);
  });

  test('stores a credential write-only and tests whether it works', async () => {
    await addCredential('typed wrong', WRONG);
    await press('Test connection');
    await dialog().getByText('It rejects the credential (401).').waitFor();
    expect(await violations(page)).toEqual([]);
    await press('Remove credential typed wrong');
    await press('Remove credential');
    await dialog().getByText('upstream.credential_removed').waitFor();
    await press('Add credential');
    await addCredential('main', SECRET);
    await press('Test connection');
    await dialog().getByText('Connected. 2 models available.').waitFor();
    expect(await dialog().innerText()).toContain(`…${SECRET.slice(-4)}`);
    await page.keyboard.press('Escape');
    await rowOf('first').getByText('Healthy').waitFor();
  });

  test("rejects a secret that can't be stored, and says what to do without a master key", async () => {
    const add = (secret: string) =>
      dashboard.administrator.post<{ error: { message: string; param: string | null } }>(
        '/api/v1/upstreams/first/credentials',
        { label: 'other', secret },
      );
    const [blank, long, huge] = [
      await add(`${WRONG} ${WRONG}`),
      await add(WRONG.repeat(1_000)),
      await add(WRONG.repeat(4_000)),
    ];
    expect([blank, long, huge].map(({ status, code }) => `${status} ${code}`)).toEqual([
      '400 invalid_value',
      '400 invalid_value',
      '413 request_too_large',
    ]);
    expect(long.body.error.param).toBe('secret');
    expect(JSON.stringify([blank, long, huge].map(({ body }) => body))).not.toContain(WRONG);
    const file = `${dashboard.relay.dataDir}.master-key`;
    await rename(file, `${file}.away`);
    const away = await add(WRONG);
    await rename(`${file}.away`, file);
    expect(away).toMatchObject({ status: 409, code: 'not_allowed' });
    expect(away.body.error.message).toMatch(/^DAYBOOK_MASTER_KEY_FILE is needed/);
  });

  test('adds a custom model and describes its routing in plain English', async () => {
    const terms = { provider: 'openai', base_url: second.baseUrl, network: 'private' };
    expect((await dashboard.administrator.post('/api/v1/upstreams', { name: 'second', terms })).status).toBe(
      200,
    );
    // Changes made elsewhere are shown by the live feed.
    await rowOf('second').waitFor();
    await press('Add model');
    await page.getByLabel('Name', { exact: true }).fill('fast');
    const target = (number: number) => page.getByRole('listitem', { name: `Target ${number}` });
    await target(1).getByLabel('Upstream model').fill('a');
    await press('Add fallback');
    await target(2).getByLabel('Upstream', { exact: true }).selectOption('second');
    await target(2).getByLabel('Upstream model').fill('b');
    await dialog().getByText('All requests go to first (as a).').waitFor();
    await dialog().getByText('If it fails, requests go to second (as b).').waitFor();
    expect(await violations(page)).toEqual([]);
    await submit('Add model');
    await page.getByText('model.defined').waitFor();
    expect((await call()).status).toBe(200);
    expect(
      [first, second].map(({ ledger }) => ledger.attempts.filter(({ authorized }) => authorized).length),
    ).toEqual([1, 0]);
  });

  test('shows an open circuit and the failover, and a healthy upstream after a test', async () => {
    first.script('a', 'status=500');
    const replies = [];
    for (let count = 0; count < 6; count++) replies.push(await call());
    expect(replies.map(({ status }) => status)).toEqual(Array<number>(6).fill(200));
    // Five requests fail at the first target; then the circuit opens and the sixth skips it.
    expect(second.ledger.attempts).toHaveLength(6);
    expect(first.ledger.attempts.filter(({ authorized }) => authorized)).toHaveLength(6);
    // The page would show it within five seconds without the reload.
    await page.reload();
    await rowOf('first').getByText('Circuit open').waitFor();
    await rowOf('first').getByText('status 500').waitFor();

    const requests = await visitor.context.newPage();
    await requests.goto(`/requests?request=${replies[0]?.requestId}`);
    const attempts = requests.getByRole('heading', { name: 'Attempts' });
    await until(
      async () => (await attempts.isVisible()) || (await requests.reload(), await settled(requests), false),
      Boolean,
      'the detail of a request with two attempts',
    );
    expect(
      (await requests.getByRole('list', { name: 'Attempts' }).getByRole('listitem').allInnerTexts()).map(
        (text) => text.split('\n').slice(0, 3),
      ),
    ).toEqual([
      ['1', 'first', 'status 500'],
      ['2', 'second', 'delivered'],
    ]);
    await requests.close();

    first.script('a', 'tokens=2');
    await choose('first', 'Test connection');
    await dialog()
      .getByText(/Connected\. \d+ models? available\./)
      .waitFor();
    await dialog().getByText('Healthy').first().waitFor();
    await page.keyboard.press('Escape');
    await rowOf('first').getByText('Healthy').waitFor();
  });

  test('pauses one, whose requests go to the fallback, and lets no auditor do so', async () => {
    await page.getByRole('button', { name: 'Upstream first', exact: true }).click();
    await press('Pause');
    await dialog().getByText('first paused.').waitFor();
    const before = first.ledger.attempts.length;
    expect((await call()).status).toBe(200);
    expect(first.ledger.attempts).toHaveLength(before);
    await press('Resume');
    await dialog().getByText('first resumed.').waitFor();
    await page.keyboard.press('Escape');

    const auditor = await dashboard.visit(await addMember(dashboard.relay, { role: 'auditor' }));
    await auditor.page.goto('/admin/upstreams');
    await settled(auditor.page);
    await auditor.page.getByRole('button', { name: 'Upstream first', exact: true }).click();
    await auditor.page.getByRole('dialog').getByText('Configuration').waitFor();
    expect(
      await auditor.page.getByRole('button', { name: /Add|Edit|Test|Pause|Remove|Retire/ }).count(),
    ).toBe(0);
    await auditor.context.close();
  });

  test('adds a paused upstream, so that its credential can be tested before calls use it', async () => {
    await page.keyboard.press('n');
    await page.getByLabel('Name', { exact: true }).fill('waiting');
    await page.getByLabel('Base URL').fill(second.baseUrl);
    await networkAccess('Public internet, localhost and private networks').check();
    await dialog()
      .getByRole('radio', { name: /^Paused/ })
      .check();
    await submit('Add upstream');
    await dialog().getByRole('heading', { name: 'Upstream waiting' }).waitFor();
    await press('Test connection');
    await dialog()
      .getByText(/Connected\. \d+ models? available\./)
      .waitFor();
    await page.keyboard.press('Escape');
    await rowOf('waiting').getByText('Paused').waitFor();
    expect((await dashboard.administrator.delete('/api/v1/upstreams/waiting')).status).toBe(200);
    await rowOf('waiting').waitFor({ state: 'detached' });
  });

  test('removes one only after the model that it alone serves was retired', async () => {
    expect(
      (
        await dashboard.administrator.put('/api/v1/dispatch', {
          model: 'single',
          terms: { targets: [{ upstream: 'first', model: 'a' }] },
        })
      ).status,
    ).toBe(200);
    await page.getByRole('button', { name: 'Retire model single' }).waitFor();
    await choose('first', 'Remove');
    await dialog().getByText('It is the only target of “single”.').waitFor();
    await dialog().getByText('“fast” loses this target').waitFor();
    expect(await page.getByRole('button', { name: 'Remove upstream' }).isDisabled()).toBe(true);
    expect((await dashboard.administrator.delete('/api/v1/upstreams/first')).code).toBe('not_allowed');
    await press('Cancel');
    await press('Retire model single');
    await dialog().getByText('model_not_found').waitFor();
    await press('Retire model');
    await choose('first', 'Remove');
    await press('Remove upstream');
    await page.getByText('upstream.removed').waitFor();
    await rowOf('first').waitFor({ state: 'detached' });
    expect((await listed()).map(({ name }) => name)).toEqual(['second', 'demo']);
    expect(
      Number(await ask(dashboard.relay.store.config('owner'), 'select count(*) from daybook.credential')),
    ).toBe(0);
    expect((await call()).status).toBe(200);
  });

  test('has no secret in the page, in the responses and frames, or in the log', async () => {
    const everything = [await pageState(), ...received, JSON.stringify(await dashboard.relay.readLog())].join(
      '\n',
    );
    expect(everything).toContain(SECRET.slice(-4));
    expect(everything).toContain('credential_added');
    for (const secret of [SECRET, WRONG]) expect(everything).not.toContain(secret);
    expect(visitor.problems).toEqual([]);
  });
});
