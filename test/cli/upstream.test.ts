import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { Readable } from 'node:stream';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connectAs } from '#db/postgres/connect.ts';
import { readKeys } from '#server/secrets/master-key.ts';
import { openCredentials } from '#server/upstreams/credential-store.ts';
import { commandLine } from '../support/servers/command-line.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { readLog } from '../support/log/log-writer.ts';

/**
 * Upstreams, their credentials and models by the command line, on a real store, as an operator works with
 * them.
 */

const SECRET = 'sk-canary-credential-7f3a9c51be02';

let directory: string;
let database: TestDatabase;
let piped = '';
beforeAll(async () => {
  directory = await makeTestDirectory();
  database = await createDatabase();
});
afterAll(async () => {
  await database?.[Symbol.asyncDispose]();
  await removeTestDirectory(directory);
});

const env = (): Record<string, string> => ({
  DAYBOOK_DATA: path.join(directory, 'data'),
  DATABASE_URL: database.url,
  DAYBOOK_UPSTREAMS: JSON.stringify([
    { name: 'environment', base_url: 'http://127.0.0.1:1/v1', api_key: SECRET, models: ['env-*'] },
  ]),
});
const { daybook, json, text } = commandLine(env, () => Readable.from([piped]));

/** What the log holds of upstreams and models, without what differs from run to run. */
const events = async (): Promise<unknown[]> => (await readLog(database)).map(({ event }) => event);

const ADD = [
  'upstream',
  'add',
  'openai',
  '--dialect',
  'openai',
  '--base-url',
  'https://api.example.com/v1/',
  '--models',
  'gpt-*, o1',
];

describe('the command line', () => {
  test('says how to begin where nothing is there', async () => {
    expect(await text('upstream', 'list')).toMatch(/^NAME[^\n]+\nenvironment +in use +environment +openai/);
    expect(await text('credential', 'list')).toContain('credential add');
    expect(await text('model', 'list')).toContain('model define');
  });

  test('adds an upstream in two commands, and shows it without its secret', async () => {
    expect(await text(...ADD)).toContain('credential add openai');
    piped = `${SECRET}\n`;
    const { id } = await json<{ id: string }>('credential', 'add', 'openai', '--label', 'main');
    expect(await json('credential', 'list')).toEqual([
      {
        id,
        upstream: 'openai',
        label: 'main',
        last4: 'be02',
        purpose: 'calls',
        added_at: expect.any(String) as string,
      },
    ]);
    expect(await json('upstream', 'list')).toMatchObject([
      { name: 'environment', source: 'environment', credentials: 1 },
      {
        name: 'openai',
        state: 'in use',
        source: 'log',
        credentials: 1,
        terms: { base_url: 'https://api.example.com/v1', models: ['gpt-*', 'o1'], network: 'public' },
      },
    ]);
    expect(await events()).toMatchObject([
      { type: 'upstream.added', upstream: 'openai', actor: 'command-line' },
      { type: 'upstream.credential_added', upstream: 'openai', credential: id, label: 'main', last4: 'be02' },
    ]);
  });

  test('takes a secret from a file too, and from nowhere else', async () => {
    const file = path.join(directory, 'second');
    await writeFile(file, `${SECRET}-second`);
    expect(await text('credential', 'add', 'openai', '--label', 'second', '--file', file)).toContain(
      'data.master-key',
    );
    const asArgument = await daybook('credential', 'add', 'openai', SECRET, '--label', 'third');
    expect(asArgument.code).toBe(64);
    const { stderr } = await commandLine(env).daybook('credential', 'add', 'openai', '--label', 'third');
    expect(stderr).toBe('daybook: No secret was given. Pipe it in, or name a file with --file.\n');
    expect(await json('credential', 'list', 'openai')).toHaveLength(2);
  });

  test('changes what is named and leaves the rest, and says so where nothing changes', async () => {
    expect(
      await json('upstream', 'change', 'openai', '--retries', '2', '--on-client-disconnect', 'drain'),
    ).toMatchObject({
      changed: true,
      terms: { retries: 2, on_client_disconnect: 'drain', models: ['gpt-*', 'o1'] },
    });
    expect(
      await json('upstream', 'change', 'openai', '--drop', 'retries,on_client_disconnect'),
    ).toMatchObject({
      changed: true,
      terms: { retries: 0, on_client_disconnect: 'cancel' },
    });
    const before = await events();
    expect(await text('upstream', 'change', 'openai', '--models', 'gpt-*,o1')).toContain('is unchanged');
    expect(await events()).toEqual(before);
  });

  test('knows where a provider is that has one address', async () => {
    expect(await json('upstream', 'add', 'groq', '--dialect', 'groq')).toMatchObject({
      terms: { base_url: 'https://api.groq.com/openai/v1' },
    });
    await json('upstream', 'remove', 'groq');
    expect((await daybook('upstream', 'add', 'local', '--dialect', 'vllm')).stderr).toContain(
      'base_url is missing',
    );
  });

  test('adds one that nothing is sent to until it has its credential and is resumed', async () => {
    expect(await json('upstream', 'add', 'groq', '--dialect', 'groq', '--paused')).toMatchObject({
      terms: { paused: true },
    });
    expect(await text('upstream', 'list')).toMatch(/groq +paused/);
    await json('upstream', 'remove', 'groq');
  });

  test('pauses and resumes', async () => {
    expect(await json('upstream', 'pause', 'openai')).toEqual({
      name: 'openai',
      paused: true,
      changed: true,
    });
    expect(await text('upstream', 'pause', 'openai')).toContain('already');
    expect(await text('upstream', 'list')).toMatch(/openai +paused/);
    expect(await json('upstream', 'resume', 'openai')).toEqual({
      name: 'openai',
      paused: false,
      changed: true,
    });
  });

  test('directs models: shares, fallbacks, aliases', async () => {
    expect(
      await text(
        'model',
        'define',
        'fast',
        '--target',
        '3*openai:gpt-4o:mini',
        '--target',
        'environment',
        '--fallback',
        'environment:env-2',
        '--fallback',
        '0*openai',
      ),
    ).toBe(
      'Model "fast" is now routed to 3*openai:gpt-4o:mini, environment, ' +
        'then environment:env-2, then 0*openai.\n',
    );
    expect(await json('model', 'show', 'fast')).toMatchObject({
      terms: {
        targets: [
          { upstream: 'openai', model: 'gpt-4o:mini', weight: 3, order: 0 },
          { upstream: 'environment', weight: 1, order: 0 },
          { upstream: 'environment', model: 'env-2', weight: 1, order: 1 },
          { upstream: 'openai', weight: 0, order: 2 },
        ],
      },
    });
    expect(await json('model', 'define', 'quick', '--alias-of', 'fast')).toMatchObject({
      changed: true,
      terms: { alias_of: 'fast' },
    });
    expect(await json('model', 'define', 'quick', '--alias-of', 'fast')).toMatchObject({ changed: false });
    expect(await text('model', 'list')).toMatch(/\nfast +3\*openai.*\nquick +the targets of "fast"\n$/);
  });

  test('tries a call as a server would direct it: by its alias, its route, and what is paused', async () => {
    await json('account', 'create', 'first');
    const { id: key } = await json<{ id: string }>('key', 'create', '--account', 'first');
    await json('key', 'restrict', key, '--models', 'fast');
    const check = async (...args: string[]) => {
      const { stdout } = await daybook('key', 'check', key, ...args, '--json');
      const { refusal } = JSON.parse(stdout) as { refusal: { code: string } | null };
      return refusal?.code ?? 'passes';
    };
    expect(await check('--model', 'quick')).toBe('passes');
    expect(await check('--model', 'gpt-4o')).toBe('model_not_permitted');
    expect(await check('--model', 'quick', '--route', '/v1/messages')).toBe('passes');
    await json('upstream', 'add', 'claude', '--provider', 'anthropic', '--base-url', 'https://x.example');
    await json('model', 'define', 'sonnet', '--target', 'claude');
    await json('key', 'restrict', key, '--models', 'sonnet');
    expect(await check('--model', 'sonnet')).toBe('passes');
    expect(await check('--model', 'sonnet', '--route', '/v1/embeddings')).toBe('model_not_found');
    await json('model', 'retire', 'sonnet');
    await json('upstream', 'remove', 'claude');
    await json('model', 'define', 'alone', '--target', 'openai');
    await json('upstream', 'pause', 'openai');
    await json('key', 'restrict', key, '--models', 'alone');
    expect(await check('--model', 'alone')).toBe('model_paused');
    await json('upstream', 'resume', 'openai');
    await json('model', 'retire', 'alone');
  });

  test.each([
    ['already', ADD],
    ['base_url is missing', ['upstream', 'add', 'two', '--models', '*']],
    [
      'base_url must be a URL without user',
      ['upstream', 'add', 'two', '--base-url', `https://me:${SECRET}@x.example/v1`],
    ],
    [
      'dialect',
      [
        'upstream',
        'add',
        'two',
        '--provider',
        'anthropic',
        '--dialect',
        'groq',
        '--base-url',
        'https://x.example',
      ],
    ],
    [
      'name=value',
      ['upstream', 'add', 'two', '--provider', 'bridge', '--package', '@ai-sdk/x', '--option', 'region'],
    ],
    ['retries', ['upstream', 'change', 'openai', '--retries', 'often']],
    ['--drop', ['upstream', 'change', 'openai', '--drop', 'nonsense']],
    ['no upstream named "two"', ['upstream', 'change', 'two', '--retries', '1']],
    ['"main" already', ['credential', 'add', 'openai', '--label', 'main']],
    ['no credential Nobody00', ['credential', 'remove', 'Nobody00']],
    ['no upstream named "nowhere"', ['model', 'define', 'm', '--target', 'nowhere:x']],
    ['not a target', ['model', 'define', 'm', '--target', '*:x']],
    ['at least one --target', ['model', 'define', 'm', '--target', 'openai', '--alias-of', 'fast']],
    ['weight', ['model', 'define', 'm', '--target', '99999*openai']],
    ['the alias "quick"', ['model', 'retire', 'fast']],
  ])('refuses what is wrong in one line that says what: %s', async (said, args) => {
    piped = SECRET;
    const before = await events();
    const { code, stdout, stderr } = await daybook(...args);
    expect([code, stdout]).toEqual([expect.toBeOneOf([1, 3]), '']);
    expect(stderr).toMatch(/^daybook: [^\n]+\n$/);
    expect(stderr.toLowerCase()).toContain(said.toLowerCase());
    expect(stderr).not.toContain(SECRET);
    expect(await events()).toEqual(before);
  });

  test("refuses to remove a model's only upstream; removing it removes its credentials too", async () => {
    await json('model', 'define', 'only', '--target', 'openai:gpt-4o');
    expect((await daybook('upstream', 'remove', 'openai')).stderr).toContain('"only"');
    await json('model', 'retire', 'only');
    const [first] = await json<{ id: string }[]>('credential', 'list', 'openai');
    await json('credential', 'remove', first?.id ?? '');
    expect(await json('credential', 'list', 'openai')).toHaveLength(1);
    await json('upstream', 'remove', 'openai');
    expect(await json('credential', 'list')).toEqual([]);
    const owner = new Client(database.config('owner'));
    await owner.connect();
    expect((await owner.query('select id from daybook.credential')).rows).toEqual([]);
    await owner.end();
  });

  test('rekey replaces the master key, and every stored credential still opens', async () => {
    await json(...ADD);
    piped = SECRET;
    await json('credential', 'add', 'openai', '--label', 'main');
    const file = path.join(directory, 'data.master-key');
    const before = (await readFile(file, 'utf8')).trim();
    const { stdout } = await daybook('rekey');
    expect(stdout).toMatch(
      /^The master key is now [0-9a-f]{16}, in .*data\.master-key\. Credentials encrypted with it: 1\.\n/,
    );
    const after = (await readFile(file, 'utf8')).trim();
    expect(after).toMatch(/^[0-9a-f]{64}$/);
    expect(after).not.toBe(before);
    expect(stdout).not.toMatch(new RegExp(`${before}|${after}`));
    await json('credential', 'add', 'openai', '--label', 'next');
    const relay = await connectAs(database, 'relay');
    const { secrets, unopened } = await openCredentials(relay, readKeys(file));
    await relay.end();
    expect([[...secrets.values()], unopened]).toEqual([[SECRET, SECRET], []]);
  });

  test('upstream test lists models with each credential, and reports a failure in one line', async () => {
    let reply: [status: number, body: string] = [200, '{"data":[{"id":"a"},{"id":"b"}]}'];
    const server = createServer(({ headers, url }, response) => {
      const [status, body] =
        headers.authorization === `Bearer ${SECRET}` && url === '/v1/models' ? reply : [401, SECRET];
      response.writeHead(status).end(body);
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as AddressInfo;
    await json(
      'upstream',
      'add',
      'probed',
      '--base-url',
      `http://127.0.0.1:${port}/v1`,
      '--network',
      'private',
    );
    piped = SECRET;
    await json('credential', 'add', 'probed', '--label', 'good');
    expect(await text('upstream', 'test', 'probed')).toBe('ok   probed, good: It lists 2 models.\n');
    piped = 'wrong';
    await json('credential', 'add', 'probed', '--label', 'wrong');
    expect(await daybook('upstream', 'test', 'probed')).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('FAIL probed, wrong: It rejects the credential (401).\n') as string,
    });
    reply = [200, '<html>'];
    expect((await daybook('upstream', 'test', 'probed')).stdout).toContain(
      'probed, good: Its reply is not JSON',
    );
    reply = [302, ''];
    expect((await daybook('upstream', 'test', 'probed')).stdout).toContain(
      'probed, good: It redirects (302)',
    );
    await json('upstream', 'change', 'probed', '--base-url', `https://127.0.0.1:${port}/v1`);
    expect((await daybook('upstream', 'test', 'probed')).stdout).toContain(
      'probed, good: It does not use TLS',
    );
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
    const { code, stdout } = await daybook('upstream', 'test', 'probed');
    expect([code, stdout]).toEqual([
      1,
      expect.stringContaining('probed, good: Connection refused: no server listens at its address.'),
    ]);
    expect(stdout).not.toContain(SECRET);
    await json('upstream', 'remove', 'probed');
  });

  test('reports in doctor whether all credentials can be decrypted', async () => {
    const finding = async (more: Record<string, string> = {}): Promise<object | undefined> => {
      const { stdout } = await commandLine(() => ({ ...env(), ...more })).daybook('doctor', '--json');
      expect(stdout).not.toContain(SECRET);
      return (JSON.parse(stdout) as { findings: { check: string }[] }).findings.find(
        ({ check }) => check === 'upstream credentials',
      );
    };
    expect(await finding()).toMatchObject({ ok: true, detail: 'all 2 can be decrypted' });
    expect(await finding({ DAYBOOK_MASTER_KEY_FILE: path.join(directory, 'none') })).toMatchObject({
      ok: false,
      detail: expect.stringContaining("2 of 2 can't be decrypted") as string,
    });
  });

  test('and in all that there is no secret is to be seen', async () => {
    const owner = new Client(database.config('owner'));
    await owner.connect();
    const { rows } = await owner.query<{ line: string }>(
      `select t::text as line from daybook.log t union all select t::text from daybook.control_event t
        union all select t::text from daybook.credential t`,
    );
    await owner.end();
    const shown = [
      ...rows.map(({ line }) => line),
      await text('credential', 'list'),
      await text('credential', 'list', '--json'),
      await text('upstream', 'list', '--json'),
    ].join('\n');
    for (const form of [
      SECRET,
      Buffer.from(SECRET).toString('hex'),
      Buffer.from(SECRET).toString('base64').slice(0, -4),
    ])
      expect(shown).not.toContain(form);
  });
});
