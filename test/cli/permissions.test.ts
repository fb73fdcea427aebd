import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readConfig } from '#server/process/config.ts';
import { type RunningServer, startServer } from '#server/process/server.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import { commandLine } from '../support/servers/command-line.ts';
import { makePlace, type Place, until, upstreamsVariable } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Plans and restrictions by the commands, beside a running server that takes them in. */

let place: Place;
let env: Record<string, string>;
let upstream: ScriptedUpstream;
let server: RunningServer;
let key: string;
let id: string;

beforeAll(async () => {
  upstream = await startUpstream();
  place = await makePlace();
  env = { ...place.env, DAYBOOK_UPSTREAMS: upstreamsVariable([{ ...upstream, models: ['ok', 'other'] }]) };
  server = await startServer(readConfig(env), createLogger('silent'));
  key = server.firstKey?.secret ?? '';
  id = key.slice(4, 12);
});

afterAll(async () => {
  await server?.stop();
  await upstream?.close();
  await place?.[Symbol.asyncDispose]();
});

const { daybook, json, text } = commandLine(() => env);

/** A file in the data directory, with this as its text or, unless it is one, as its JSON. */
async function file(name: string, content: unknown): Promise<string> {
  const at = path.join(place.dataDir, name);
  await writeFile(at, typeof content === 'string' ? content : JSON.stringify(content));
  return at;
}

type Outcome = { status: number; code: string | undefined };

async function call(model = 'ok'): Promise<Outcome> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const reply = await fetch(`${server.baseUrl}/chat/completions`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ model, messages: [] }),
  });
  const body = (await reply.json()) as { error?: { code: string } };
  return { status: reply.status, code: body.error?.code };
}
const becomes = (code: string | undefined): Promise<Outcome> =>
  until(
    () => call(),
    (seen) => seen.code === code,
    'the server',
  );

const TERMS = {
  models: ['ok', 'small-*'],
  concurrent_requests: 20,
  quotas: [{ meter: 'tokens', window: 'day', limit: 1_000_000 }],
  reply_tokens_max: 1_000,
};

describe('plans', () => {
  test('are defined from a file, changed by another, and left alone by the same', async () => {
    const plan = await file('plan.json', TERMS);
    expect(await json('plan', 'define', 'free', '--file', plan)).toEqual({
      name: 'free',
      outcome: 'defined',
    });
    expect(await text('plan', 'define', 'free', '--file', plan)).toBe(
      'Plan "free" has these terms already.\n',
    );
    expect(await json('plan', 'define', 'free', '--file', plan, '--windows', 'reset')).toEqual({
      name: 'free',
      outcome: 'changed',
    });
    expect(await json('account', 'set-plan', 'first', 'free')).toEqual({
      name: 'first',
      plan: 'free',
      changed: true,
    });
    expect(await text('account', 'set-plan', 'first', 'free')).toContain('Nothing changed.');
    await until(
      () => call('other'),
      ({ code }) => code === 'model_not_permitted',
      'the plan',
    );
    expect(await json('plan', 'list')).toEqual([{ name: 'free', state: 'active', version: 2, accounts: 1 }]);
    expect(await text('plan', 'list')).toMatch(/^NAME +STATE +VERSION +ACCOUNTS\nfree +active +2 +1\n$/);
  });

  test('are shown with their terms and with how far a soft limit may go', async () => {
    const shown = await json<{ terms: object }>('plan', 'show', 'free');
    const quota = { ...TERMS.quotas[0], enforcement: 'soft' };
    expect(shown).toEqual({
      name: 'free',
      state: 'active',
      version: 2,
      accounts: 1,
      terms: { ...TERMS, quotas: [quota] },
      overdrafts: [{ quota: 'tokens/day', tokens: 20_000 }],
    });
    const people = await text('plan', 'show', 'free');
    expect(people).toContain('tokens/day can be exceeded by at most 20000 tokens');
    // What is shown can be the next file.
    const next = await file('next.json', people.slice(people.indexOf('{'), people.lastIndexOf('}') + 1));
    expect(await json('plan', 'define', 'free', '--file', next)).toEqual({
      name: 'free',
      outcome: 'unchanged',
    });
  });

  test('have quotas whose usage is adjusted, never below zero', async () => {
    const adjust = ['usage', 'adjust', '--account', 'first', '--meter', 'tokens', '--reason', 'a "test"'];
    expect(await text(...adjust, '--amount', '5', '--window', 'day')).toMatch(
      /^Adjustment added 5 tokens to the usage of account "first", at position \d+ of the log\.\n$/,
    );
    const used = async (): Promise<number> => {
      const reply = await fetch(`${server.baseUrl}/usage`, { headers: { authorization: `Bearer ${key}` } });
      const { limits } = (await reply.json()) as { limits: { window: string; used: number }[] };
      return limits.find(({ window }) => window === 'day')?.used ?? 0;
    };
    const before = await used();
    expect(before).toBeGreaterThanOrEqual(5);
    expect(await json(...adjust, '--amount=-5', '--key', id)).toMatchObject({ account: 'first', amount: -5 });
    expect(await used()).toBe(before - 5);
    const { code, stderr } = await daybook(...adjust, '--amount=-1000000');
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^daybook: Only \d+ tokens can be given back in/),
    ]);
  });

  test('give way to terms of an account, which {} takes away', async () => {
    expect(
      await json('account', 'override', 'first', '--file', await file('terms.json', { models: ['other'] })),
    ).toEqual({ name: 'first', terms: { models: ['other'] }, changed: true });
    await becomes('model_not_permitted');
    expect(await json('account', 'list')).toMatchObject([
      { name: 'first', state: 'active', plan: 'free', overrides: ['models'], keys: 1 },
    ]);
    expect(await text('account', 'override', 'first', '--file', await file('none.json', {}))).toBe(
      'Account "first" has no override.\n',
    );
    await becomes(undefined);
  });

  test('that are retired stop their accounts until those are on another, and stay retired', async () => {
    expect(await json('plan', 'retire', 'free')).toEqual({ name: 'free', state: 'retired', changed: true });
    await becomes('plan_not_active');
    expect(await text('plan', 'retire', 'free')).toBe('Plan "free" is retired already.\n');
    for (const args of [
      ['plan', 'define', 'free', '--file', await file('plan.json', {})],
      ['account', 'set-plan', 'first', 'free', '--window', 'reset'],
    ]) {
      expect(JSON.parse((await daybook(...args, '--json')).stderr)).toMatchObject({
        error: { code: 'not_allowed' },
      });
    }
    expect(await text('account', 'set-plan', 'first', 'none')).toContain('has no plan');
    await becomes(undefined);
  });
});

describe('keys', () => {
  type Restricted = { terms: object; expires_at: string | null; changed: boolean };

  test('are restricted field by field, by options and by a file', async () => {
    const quota = ['--quota', 'tokens/day=100000', '--quota', 'requests/hour=50:hard'];
    const first = await json<Restricted>(
      'key',
      'restrict',
      id,
      '--models',
      'ok,small-*',
      '--origins',
      'none',
      '--concurrent',
      '3',
      ...quota,
    );
    const quotas = [
      { meter: 'tokens', window: 'day', limit: 100_000, enforcement: 'soft' },
      { meter: 'requests', window: 'hour', limit: 50, enforcement: 'hard' },
    ];
    expect(first).toEqual({
      id,
      terms: { models: ['ok', 'small-*'], origins: ['none'], concurrent_requests: 3, quotas },
      expires_at: null,
      changed: true,
    });
    const terms = await file('key.json', { networks: ['127.0.0.0/8'], models: ['a'] });
    const second = await json<Restricted>(
      'key',
      'restrict',
      id,
      '--file',
      terms,
      '--models',
      'ok',
      '--quota',
      'any',
      '--concurrent',
      'any',
      '--expires',
      '2099-01-31T00:00:00Z',
    );
    expect(second).toMatchObject({
      terms: { models: ['ok'], origins: ['none'], networks: ['127.0.0.0/8'] },
      expires_at: '2099-01-31T00:00:00.000Z',
    });
    expect(Object.keys(second.terms)).toHaveLength(3);
    expect(await text('key', 'list')).toMatch(/RESTRICTED\n.*2099-01-31.* (models|origins|networks), /);
    expect(await json('key', 'restrict', id, '--models', 'ok')).toMatchObject({ changed: false });
    await until(
      () => call('other'),
      ({ code }) => code === 'model_not_permitted',
      'the restriction',
    );
  });

  test.each<[string[], object | null, string[]]>([
    [['--model', 'ok', '--address', '127.0.0.1'], null, []],
    [[], null, ['model', 'address']],
    [['--model', 'ok', '--address', '203.0.113.9'], { status: 403, code: 'network_not_allowed' }, []],
    [
      ['--model', 'ok', '--route', '/v1/models', '--origin', 'https://evil.example'],
      { status: 403, code: 'origin_not_allowed' },
      ['address'],
    ],
  ])('are tried before a call is made: %j', async (args, refusal, open) => {
    const { code, stdout } = await daybook('key', 'check', id, ...args, '--json');
    expect(code).toBe(refusal === null ? 0 : 1);
    expect(JSON.parse(stdout)).toMatchObject({ passes: refusal === null, refusal, not_checked: open });
  });

  test('are tried for what would be refused for other reasons than their terms', async () => {
    expect(await text('key', 'restrict', id, '--clear', '--expires', 'never')).toBe(
      `Key ${id} is not restricted beyond its account; it expires never.\n`,
    );
    const { stdout } = await daybook('key', 'check', id, '--model', 'nobodys', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ refusal: { status: 404, code: 'model_not_found' } });
    expect(await json('key', 'check', id, '--model', 'daybook-demo')).toMatchObject({ passes: true });
    await daybook('account', 'suspend', 'first');
    expect((await daybook('key', 'check', id)).stdout).toMatch(
      /^The call would be rejected: 403 account_disabled\. The API key is valid/,
    );
    await daybook('account', 'reinstate', 'first');
    expect(await text('key', 'check', id)).toBe('The call would be admitted.\n');
  });

  test("that have ended are tried, and can't be restricted any more", async () => {
    const { id: ended } = await json<{ id: string }>('key', 'create', '--account', 'first');
    await daybook('key', 'revoke', ended);
    const { stdout } = await daybook('key', 'check', ended, '--json');
    expect(JSON.parse(stdout)).toMatchObject({ refusal: { status: 401, code: 'api_key_revoked' } });
    const ran = await daybook('key', 'restrict', ended, '--models', 'ok');
    expect([ran.code, ran.stderr]).toEqual([
      1,
      `daybook: Key ${ended} is revoked; create a new key instead.\n`,
    ]);
  });
});

const ADJUST = ['usage', 'adjust', '--account', 'first', '--meter', 'cost_nanousd', '--reason', 'test'];

test.each<[string, () => Promise<string[]> | string[], string]>([
  [
    'a field',
    async () => [
      'plan',
      'define',
      'x',
      '--file',
      await file('plan.json', { quotas: [{ meter: 'tokens', window: 'day', limit: -1 }] }),
    ],
    'plan.json: quotas[0].limit must be at least 0.',
  ],
  [
    'a plan named like none',
    async () => ['plan', 'define', 'none', '--file', await file('plan.json', {})],
    'A plan name has 1 to 64 of a-z, 0-9, ".", "_" and "-", begins with a letter or a digit, ' +
      'and is not "none".',
  ],
  [
    'a plan that is not there',
    () => ['account', 'set-plan', 'first', 'gold'],
    'There is no plan named "gold".',
  ],
  [
    'an adjustment of no units',
    () => [...ADJUST, '--amount=0'],
    '--amount must be a whole number other than 0. Write --amount=-100 to give 100 units back.',
  ],
  [
    'an adjustment of a quota that does not exist',
    () => [...ADJUST, '--amount=-1', '--window', 'hour'],
    'No quota of cost counts this usage by the hour.',
  ],
  [
    'an expiry',
    () => ['key', 'restrict', id, '--expires', '2001-01-01'],
    'The expiry 2001-01-01T00:00:00.000Z is in the past.',
  ],
  [
    'an address',
    () => ['key', 'check', id, '--address', 'localhost'],
    '--address: "localhost" is not an IP address.',
  ],
])('%s that is wrong is told in one line', async (_, args, message) => {
  const ran = await daybook(...(await args()));
  expect([ran.code, ran.stdout, ran.stderr]).toEqual([expect.toBeOneOf([1, 3]), '', `daybook: ${message}\n`]);
});
