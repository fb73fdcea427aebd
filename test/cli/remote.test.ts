import { mkdir, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { MANAGEMENT_SCOPES, type ManagementScope } from '#db/events/management-scopes.ts';
import type { CreatedManagementKey } from '#server/contract/keys.ts';
import type { RequestRow } from '#server/contract/requests.ts';
import type { UsageReport } from '#server/contract/usage.ts';
import { callDemo, setUp, type SignedInClient } from '../support/dashboard.ts';
import { projectAll } from '../support/projections/projected.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { commandLine } from '../support/servers/command-line.ts';

/** Commands of a user who is logged in to a server, and has neither its database nor its directory. */

let relay: TestRelay;
let administrator: SignedInClient;
let server: string;
let home: string;
let secret: string;
/** The standard input of the command. */
let piped = '';
let more: Record<string, string> = {};

const { daybook, json, text } = commandLine(
  () => ({ HOME: home, ...more }),
  () => Readable.from([piped]),
);

beforeAll(async () => {
  relay = await startRelay();
  administrator = await setUp(relay);
  server = `http://127.0.0.1:${relay.port}`;
  home = path.join(relay.dataDir, 'home');
  await mkdir(home);
  secret = await createKey(
    MANAGEMENT_SCOPES.filter((scope) => !scope.endsWith(':read')).concat('audit:read'),
  );
  piped = `${secret}\n`;
  await text('login', server);
});
afterAll(() => relay?.[Symbol.asyncDispose]());

async function createKey(scopes: readonly ManagementScope[]): Promise<string> {
  const made = await administrator.post<CreatedManagementKey>('/api/v1/management-keys', {
    name: 'laptop',
    scopes,
    account: null,
  });
  return made.body.secret;
}

const loginFile = (): string => path.join(home, '.config/daybook/login.json');

describe('daybook login', () => {
  test('stores the management key for its user alone, and prints it nowhere', async () => {
    const { stdout, stderr } = await daybook('login', server, '--json');
    expect(JSON.parse(stdout)).toEqual({ server, file: loginFile() });
    expect(stdout + stderr).not.toContain(secret);
    expect((await stat(loginFile())).mode & 0o777).toBe(0o600);
    expect((await stat(path.dirname(loginFile()))).mode & 0o077).toBe(0);
  });

  test('rejects a key that the server does not know, and keeps the login as it was', async () => {
    piped = `${secret.slice(0, -1)}${secret.endsWith('A') ? 'B' : 'A'}`;
    expect((await daybook('login', server)).code).toBe(1);
    piped = secret;
    expect((await daybook('account', 'list')).code).toBe(0);
  });

  test('sends the key over HTTPS only, except to this machine', async () => {
    const { code, stderr } = await daybook('login', 'http://daybook.example.com');
    expect([code, stderr]).toEqual([1, expect.stringContaining('HTTPS') as string]);
  });

  test('a login that others can read is not used', async () => {
    const other = path.join(relay.dataDir, 'readable');
    await mkdir(path.join(other, 'daybook'), { recursive: true });
    const readable = path.join(other, 'daybook/login.json');
    await writeFile(readable, JSON.stringify({ server, key: secret }), { mode: 0o644 });
    more = { XDG_CONFIG_HOME: other };
    const { code, stderr } = await daybook('account', 'list');
    more = {};
    expect([code, stderr]).toEqual([1, expect.stringContaining('chmod 600') as string]);
  });

  test('open prints the address of the dashboard', async () => {
    expect(await text('open', '--no-browser')).toBe(`${server}/\n`);
  });
});

describe('commands at a server', () => {
  test('create an account, its plan and a key, whose call succeeds, with the key as the actor', async () => {
    const before = (await relay.readLog()).length;
    const terms = path.join(relay.dataDir, 'plan.json');
    await writeFile(terms, JSON.stringify({ requests_per_minute: 600 }));
    expect(await json('plan', 'define', 'team', '--file', terms)).toEqual({
      name: 'team',
      outcome: 'defined',
    });
    const { id } = await json<{ id: string }>('account', 'create', 'acme');
    expect(await json('account', 'set-plan', 'acme', 'team')).toMatchObject({ changed: true });
    expect(await json('account', 'set-plan', 'acme', 'team')).toMatchObject({ changed: false });
    const key = await json<{ id: string; key: string }>('key', 'create', '--account', 'acme');
    expect(await callDemo(relay, key.key)).toBe('200');
    expect(await json('account', 'list')).toContainEqual(
      expect.objectContaining({ id, name: 'acme', plan: 'team', keys: 1, parent: null }),
    );
    expect(await json('plan', 'show', 'team')).toMatchObject({
      accounts: 1,
      terms: { requests_per_minute: 600 },
    });
    const changes = (await relay.readLog()).slice(before).filter(({ event }) => 'actor' in event);
    expect(changes.length).toBeGreaterThanOrEqual(4);
    for (const { event } of changes)
      expect(event).toMatchObject({ actor: expect.stringMatching(/^management_key\//) as string });
  });

  test('rotate, restrict and revoke a key, and keep the restrictions that they do not name', async () => {
    const { id, key } = await json<{ id: string; key: string }>('key', 'create', '--account', 'acme');
    const rotated = await json<{ key: string }>('key', 'rotate', id, '--overlap', '1h');
    expect([await callDemo(relay, key), await callDemo(relay, rotated.key)]).toEqual(['200', '200']);
    await text('key', 'restrict', id, '--models', 'daybook-demo');
    const expires = '2099-01-31T00:00:00.000Z';
    expect(await json('key', 'restrict', id, '--concurrent', '5', '--expires', expires)).toEqual({
      id,
      terms: { models: ['daybook-demo'], concurrent_requests: 5 },
      expires_at: expires,
      changed: true,
    });
    expect(await json('key', 'list')).toContainEqual(
      expect.objectContaining({ id, account: 'acme', state: 'rotating', expires_at: expires }),
    );
    await text('key', 'revoke', id);
    expect(await callDemo(relay, rotated.key)).toBe('401 api_key_revoked');
  });

  test('key check asks the running server, and exits with 1 where the call would be rejected', async () => {
    const { id } = await json<{ id: string }>('key', 'create', '--account', 'acme');
    expect(await json('key', 'check', id, '--model', 'daybook-demo')).toMatchObject({
      passes: true,
      refusal: null,
    });
    await text('key', 'restrict', id, '--models', 'gpt-4o');
    const refused = await daybook('key', 'check', id, '--model', 'daybook-demo');
    expect([refused.code, refused.stdout]).toEqual([
      1,
      expect.stringContaining('403 model_not_permitted') as string,
    ]);
  });

  test('add an upstream with a credential, route a model to it and set its price', async () => {
    await text('upstream', 'add', 'azure', '--base-url', 'https://llm.example.com/v1', '--paused');
    piped = 'sk-canary-4f1b77a0e2\n';
    const { id } = await json<{ id: string }>('credential', 'add', 'azure', '--label', 'main');
    piped = secret;
    expect(await json('credential', 'list', 'azure')).toEqual([
      expect.objectContaining({ id, upstream: 'azure', label: 'main', purpose: 'calls' }),
    ]);
    expect(await json('upstream', 'change', 'azure', '--retries', '1')).toMatchObject({
      changed: true,
      terms: { base_url: 'https://llm.example.com/v1', retries: 1 },
    });
    await text('model', 'define', 'large', '--target', 'azure:gpt-5');
    expect(await json('model', 'list')).toEqual([
      expect.objectContaining({
        name: 'large',
        terms: { targets: [expect.objectContaining({ upstream: 'azure' })] },
      }),
    ]);
    await text('price', 'set', 'large', '--input', '2.50', '--output', '10');
    expect(await json('price', 'list')).toContainEqual(
      expect.objectContaining({ model: 'large', plan: null }),
    );
    await text('model', 'retire', 'large');
    await text('credential', 'remove', id);
    await text('upstream', 'remove', 'azure');
    expect(await json('upstream', 'list')).not.toContainEqual(expect.objectContaining({ name: 'azure' }));
  });

  test('list, show and follow requests, and report their usage', async () => {
    await projectAll(relay.store);
    const rows = await json<RequestRow[]>('requests', 'list', '--account', 'acme', '--outcome', 'completed');
    const [newest] = rows;
    if (!newest) throw new Error('no request is listed');
    expect(await json('requests', 'show', newest.request)).toMatchObject({
      request: newest.request,
      events: expect.arrayContaining([expect.objectContaining({ type: 'request.settled' })]) as object[],
    });
    const tail = await text('requests', 'tail', '--no-follow', '--lines', '1', '--outcome', 'completed');
    expect(tail.trimEnd().split('\n')).toHaveLength(1);
    const usage = await json<UsageReport>('usage', 'report', '--account', 'acme', '--by', 'model');
    expect(usage.totals.completed).toBe(rows.length);
    expect(usage.rows).toEqual([expect.objectContaining({ model: 'daybook-demo', completed: rows.length })]);
    expect(await text('usage', 'report', '--by', 'model')).toContain('daybook-demo');
  });

  test('failures end with exit codes of their own, and JSON names their code', async () => {
    const unknown = await daybook('account', 'suspend', 'unknown', '--json');
    expect([unknown.code, JSON.parse(unknown.stderr)]).toEqual([
      3,
      { error: { code: 'not_found', message: expect.any(String) as string } },
    ]);
    expect((await daybook('requests', 'show', '01a1fffd-088e-7242-bbde-9aba9931f5b9')).code).toBe(3);
    expect((await daybook('account', 'create', 'acme')).code).toBe(1);
    expect((await daybook('account', 'list', '--no-such-option')).code).toBe(64);
    more = { DAYBOOK_SERVER: 'http://127.0.0.1:1', DAYBOOK_MANAGEMENT_KEY: secret };
    const away = await daybook('account', 'list');
    more = { DAYBOOK_SERVER: server, DAYBOOK_MANAGEMENT_KEY: await createKey(['keys:read']) };
    const weak = await daybook('account', 'list');
    more = {};
    expect([away.code, weak.code]).toEqual([4, 1]);
    expect(weak.stderr).toContain('accounts:read');
  });

  test('a command without a counterpart in the API is rejected while the user is logged in', async () => {
    for (const command of [
      ['member', 'list'],
      ['log', 'keys'],
    ]) {
      const { code, stderr } = await daybook(...command);
      expect([code, stderr]).toEqual([1, expect.stringContaining('beside the database only') as string]);
    }
  });

  test('after logout commands work beside the database again', async () => {
    await text('logout');
    await expect(stat(loginFile())).rejects.toThrow('ENOENT');
    const { code, stderr } = await daybook('requests', 'list');
    expect([code, stderr]).toEqual([1, expect.stringContaining('daybook login') as string]);
  });
});
