import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import path from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { DAYBOOK_VARIABLES, unknownVariables } from '#db/configuration/names.ts';
import { ConfigError, describeConfig, readConfig } from '#server/process/config.ts';
import { isWithin } from '#server/access/networks.ts';
import { readWorkerConfig } from '#db/configuration/worker-config.ts';

/** The line that the server refuses to start with. */
function refusal(environment: Record<string, string>): string {
  try {
    readConfig(environment);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  throw new Error('the configuration was taken');
}

const CANARY = 'canary-5ecret';
const upstream = (changes: object): Record<string, string> => ({
  DAYBOOK_UPSTREAMS: JSON.stringify([
    { name: 'one', base_url: 'https://one.example/v1', api_key: CANARY, models: ['*'], ...changes },
  ]),
});

describe('a wrong value', () => {
  test.each<[string, Record<string, string>]>([
    ['PORT', { PORT: 'http' }],
    ['PORT', { PORT: '65536' }],
    ['PORT', { PORT: '-1' }],
    ['PORT', { PORT: '80.5' }],
    ['DAYBOOK_INSTANCES', { DAYBOOK_INSTANCES: '0' }],
    ['DAYBOOK_INSTANCES', { DAYBOOK_INSTANCES: '65' }],
    ['DAYBOOK_WORKER', { DAYBOOK_WORKER: 'yes' }],
    ['DATABASE_URL', { DATABASE_URL: `mysql://root:${CANARY}@host/db` }],
    ['DATABASE_URL', { DATABASE_URL: CANARY }],
    ['DAYBOOK_UPSTREAMS', { DAYBOOK_UPSTREAMS: `[{"api_key":"${CANARY}"` }],
    ['DAYBOOK_UPSTREAMS', { DAYBOOK_UPSTREAMS: '{}' }],
    ['DAYBOOK_UPSTREAMS', { DAYBOOK_UPSTREAMS: `"${CANARY}"` }],
    ['DAYBOOK_UPSTREAMS', upstream({ name: 'No Blanks' })],
    ['DAYBOOK_UPSTREAMS', upstream({ base_url: 'one.example/v1' })],
    ['DAYBOOK_UPSTREAMS', upstream({ base_url: 'ftp://one.example/v1' })],
    ['DAYBOOK_UPSTREAMS', upstream({ base_url: 'https://one.example' })],
    ['DAYBOOK_UPSTREAMS', upstream({ base_url: 'https://one.example/v1/chat/completions' })],
    ['DAYBOOK_UPSTREAMS', upstream({ base_url: `https://user:${CANARY}@one.example/v1` })],
    ['DAYBOOK_UPSTREAMS', upstream({ base_url: `https://one.example/v1?key=${CANARY}` })],
    ['DAYBOOK_UPSTREAMS', upstream({ api_key: `${CANARY}\n` })],
    ['DAYBOOK_UPSTREAMS', upstream({ api_key: `${CANARY} ` })],
    ['DAYBOOK_UPSTREAMS', upstream({ api_key: [CANARY] })],
    ['DAYBOOK_UPSTREAMS', upstream({ models: [] })],
    ['DAYBOOK_UPSTREAMS', upstream({ models: 'gpt-*' })],
    ['DAYBOOK_UPSTREAMS', upstream({ models: ['m\u00f6del'] })],
    ['DAYBOOK_UPSTREAMS', upstream({ modles: ['*'] })],
    ['OPENAI_API_KEY', { OPENAI_API_KEY: `${CANARY} ` }],
    ['OPENAI_BASE_URL', { OPENAI_BASE_URL: 'https://api.example' }],
    ['UPSTREAM_CONNECT_TIMEOUT_MS', { UPSTREAM_CONNECT_TIMEOUT_MS: '0' }],
    ['UPSTREAM_FIRST_BYTE_TIMEOUT_MS', { UPSTREAM_FIRST_BYTE_TIMEOUT_MS: '1s' }],
    ['UPSTREAM_IDLE_TIMEOUT_MS', { UPSTREAM_IDLE_TIMEOUT_MS: '-5' }],
    ['UPSTREAM_TOTAL_TIMEOUT_MS', { UPSTREAM_TOTAL_TIMEOUT_MS: '99999999999' }],
    ['MAX_BODY_MB', { MAX_BODY_MB: '0' }],
    ['MAX_BODY_MB', { MAX_BODY_MB: 'Infinity' }],
    ['ACCOUNTING', { ACCOUNTING: 'lax' }],
    ['LOG_LEVEL', { LOG_LEVEL: 'verbose' }],
    ['TLS_KEY', { TLS_CERT: '/nowhere/cert.pem' }],
    ['TRUSTED_PROXIES', { TRUSTED_PROXIES: '10.0.0.0/8, proxy.example' }],
    ['TRUSTED_PROXIES', { TRUSTED_PROXIES: '10.0.0.1,' }],
    ['TLS_CERT', { TLS_KEY: '/nowhere/key.pem' }],
    ['TLS_CERT', { TLS_CERT: '/nowhere/cert.pem', TLS_KEY: '/nowhere/key.pem' }],
  ])('of %s is refused in one line that names it and repeats no secret: %j', (variable, environment) => {
    const line = refusal(environment);
    expect(line.startsWith(variable)).toBe(true);
    expect(line).not.toContain(CANARY);
    expect(line).not.toContain('\n');
    expect(line).toMatch(/\.$/);
  });

  test('within a list says which of the list', () => {
    const list = JSON.stringify([
      { name: 'one', base_url: 'https://one.example/v1', models: ['a'] },
      { name: 'two', base_url: 'two', models: ['b'] },
    ]);
    expect(refusal({ DAYBOOK_UPSTREAMS: list })).toMatch(/^DAYBOOK_UPSTREAMS .*1\.base_url/);
  });

  test('is two upstreams of one name, whichever variables they come from', () => {
    const one = { name: 'openai', base_url: 'https://one.example/v1', models: ['a'] };
    expect(refusal({ DAYBOOK_UPSTREAMS: JSON.stringify([one, one]) })).toMatch(
      /^DAYBOOK_UPSTREAMS .*names must differ/,
    );
    expect(refusal({ DAYBOOK_UPSTREAMS: JSON.stringify([one]), OPENAI_API_KEY: CANARY })).toMatch(
      /^OPENAI_API_KEY .*"openai"/,
    );
  });
});

describe('the configuration', () => {
  test('has the documented defaults', () => {
    expect(readConfig({})).toMatchObject({
      PORT: 4000,
      HOST: '127.0.0.1',
      DAYBOOK_DATA: './data',
      MAX_BODY_MB: 32,
      ACCOUNTING: 'strict',
      LOG_LEVEL: 'info',
      upstreams: [],
      tls: null,
    });
    expect(readConfig({ HOME: '/root', PATH: '/bin' })).toEqual(readConfig({}));
  });

  test('takes an empty variable for one that is not set', () => {
    const empty = Object.fromEntries(Object.keys(describeConfig(readConfig({}))).map((name) => [name, '']));
    expect(readConfig(empty)).toEqual(readConfig({}));
  });

  test('adds OpenAI, or whoever speaks like it, from its own variables', () => {
    const used = { provider: 'openai', dialect: 'openai', on_client_disconnect: 'cancel', retries: 0 };
    expect(readConfig({ OPENAI_API_KEY: CANARY }).upstreams).toEqual([
      { name: 'openai', base_url: 'https://api.openai.com/v1', api_key: CANARY, models: ['*'], ...used },
    ]);
    expect(readConfig({ OPENAI_BASE_URL: 'http://127.0.0.1:11434/v1/' }).upstreams).toEqual([
      { name: 'openai', base_url: 'http://127.0.0.1:11434/v1', api_key: '', models: ['*'], ...used },
    ]);
    const both = readConfig({ ...upstream({}), OPENAI_API_KEY: CANARY });
    expect(both.upstreams.map(({ name }) => name)).toEqual(['one', 'openai']);
  });

  test('trusts no proxy but those that are named', () => {
    expect(readConfig({}).trustedProxies).toBeNull();
    const { trustedProxies } = readConfig({ TRUSTED_PROXIES: '127.0.0.1, 10.0.0.0/8 ,2001:db8::/32' });
    const trusted = ['127.0.0.1', '10.9.9.9', '2001:db8::1', '127.0.0.2'].map(
      (address) => trustedProxies !== null && isWithin(trustedProxies, address),
    );
    expect(trusted).toEqual([true, true, true, false]);
  });

  test('reads certificate and key where both are given', () => {
    const directory = mkdtempSync(path.join(tmpdir(), 'daybook-config-'));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const [cert, key] = ['cert.pem', 'key.pem'].map((name) => path.join(directory, name)) as [string, string];
    writeFileSync(cert, 'certificate');
    writeFileSync(key, 'key');
    const { tls } = readConfig({ TLS_CERT: cert, TLS_KEY: key });
    expect([tls?.cert.toString(), tls?.key.toString()]).toEqual(['certificate', 'key']);
  });
});

describe('a secret in a file', () => {
  const fileOf = (text: string): string => {
    const directory = mkdtempSync(path.join(tmpdir(), 'daybook-config-'));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const file = path.join(directory, 'secret');
    writeFileSync(file, text);
    return file;
  };

  test.each([
    ['DATABASE_URL', `postgres://owner:${CANARY}@host/db`],
    ['DAYBOOK_UPSTREAMS', upstream({})['DAYBOOK_UPSTREAMS'] as string],
    ['OPENAI_API_KEY', CANARY],
  ])('is the value of %s, without the end of its last line', (name, value) => {
    expect(readConfig({ [`${name}_FILE`]: fileOf(`${value}\n`) })).toEqual(readConfig({ [name]: value }));
    if (name === 'DATABASE_URL')
      expect(readWorkerConfig({ [`${name}_FILE`]: fileOf(`${value}\n`) })).toEqual(
        readWorkerConfig({ [name]: value }),
      );
  });

  test('can be given in one way only, and has to be there', () => {
    expect(refusal({ OPENAI_API_KEY: CANARY, OPENAI_API_KEY_FILE: fileOf(CANARY) })).toMatch(
      /^OPENAI_API_KEY_FILE .*Drop one\.$/,
    );
    expect(refusal({ DATABASE_URL_FILE: '/nowhere/url' })).toBe(
      "DATABASE_URL_FILE is not usable: /nowhere/url can't be read (ENOENT).",
    );
    expect(refusal({ DATABASE_URL_FILE: fileOf(' \n') })).toMatch(/^DATABASE_URL_FILE .*is empty\.$/);
    expect(refusal({ DAYBOOK_UPSTREAMS_FILE: fileOf(' '.repeat(2 ** 20) + ']') })).toMatch(
      /too long for a secret\.$/,
    );
    expect(() => readWorkerConfig({ DATABASE_URL_FILE: '/nowhere/url' })).toThrow(
      'DATABASE_URL_FILE is not usable',
    );
  });

  test('is not told where it is wrong', () => {
    expect(refusal({ DAYBOOK_UPSTREAMS_FILE: fileOf(`[{"api_key":"${CANARY}"`) })).not.toContain(CANARY);
  });

  test('is no way for what is no secret', () => {
    expect(readConfig({ PORT_FILE: '/nowhere/port' })).toEqual(readConfig({}));
  });
});

describe('what is shown of the configuration', () => {
  test('has every variable, and a secret only by its length', () => {
    const shown = describeConfig(
      readConfig({ DATABASE_URL: 'postgres://u:pw@host/db', OPENAI_API_KEY: CANARY, ...upstream({}) }),
    );
    expect(Object.keys(shown)).toEqual(
      expect.arrayContaining(['PORT', 'HOST', 'DAYBOOK_DATA', 'DATABASE_URL', 'TLS_KEY', 'LOG_LEVEL']),
    );
    expect(shown['OPENAI_API_KEY']).toBe(`(set, ${CANARY.length} characters)`);
    expect(shown['DATABASE_URL']).toBe('(set, 23 characters)');
    expect(shown['DAYBOOK_UPSTREAMS']).toMatchObject([
      { name: 'one', api_key: `(set, ${CANARY.length} characters)` },
      { name: 'openai' },
    ]);
  });

  test('holds no secret, whatever secrets there are and wherever they are given', () => {
    const secret = fc.string({
      unit: fc.integer({ min: 0x21, max: 0x7e }).map((unit) => String.fromCharCode(unit)),
      minLength: 12,
      maxLength: 60,
    });
    fc.assert(
      fc.property(secret, secret, secret, (database, openai, other) => {
        const text = JSON.stringify(
          describeConfig(
            readConfig({
              DATABASE_URL: `postgres://owner:${encodeURIComponent(database)}@host/db`,
              OPENAI_API_KEY: openai,
              ...upstream({ api_key: other }),
            }),
          ),
        );
        for (const each of [database, encodeURIComponent(database), openai, other]) {
          expect(text).not.toContain(JSON.stringify(each).slice(1, -1));
        }
      }),
    );
  });
});

describe('memory for bodies and replies', () => {
  test('follows the largest body, unless it is set', () => {
    expect(readConfig({})).toMatchObject({
      MAX_BUFFERED_MB_PER_KEY: 256,
      MAX_BUFFERED_MB_PER_ACCOUNT: 512,
      MAX_BUFFERED_MB: 1024,
    });
    expect(readConfig({ MAX_BODY_MB: '2', MAX_BUFFERED_MB: '40' })).toMatchObject({
      MAX_BUFFERED_MB_PER_KEY: 16,
      MAX_BUFFERED_MB_PER_ACCOUNT: 32,
      MAX_BUFFERED_MB: 40,
    });
  });

  test('is never less for the larger scope', () => {
    expect(refusal({ MAX_BUFFERED_MB_PER_KEY: '31' })).toBe(
      'MAX_BUFFERED_MB_PER_KEY is not usable: 31 is less than MAX_BODY_MB, which is 32.',
    );
    expect(refusal({ MAX_BUFFERED_MB_PER_ACCOUNT: '200' })).toMatch(/^MAX_BUFFERED_MB_PER_ACCOUNT is not/);
    expect(refusal({ MAX_BUFFERED_MB: '300' })).toMatch(/^MAX_BUFFERED_MB is not usable: 300 is less than/);
  });
});

test.each([
  ['PORT', '70000', 'a whole number from 0 to 65535'],
  ['MAX_BODY_MB', '-1', 'a number above 0, up to 1024'],
  ['MAX_BODY_MB', '1025', 'a number above 0, up to 1024'],
  ['UPSTREAM_TOTAL_TIMEOUT_MS', '0', 'a whole number from 1 to 86400000'],
  ['DAYBOOK_INSTANCES', '100', 'auto, or a whole number from 1 to 64'],
  ['DAYBOOK_WORKER', 'maybe', 'one of: on, off'],
])('%s=%s is refused with the values that it allows', (name, value, allowed) =>
  expect(refusal({ [name]: value })).toBe(`${name} is not usable: must be ${allowed}.`),
);

test('DAYBOOK_INSTANCES=auto is a process for each core that this one may use, up to 8', () => {
  const { DAYBOOK_INSTANCES } = readConfig({ DAYBOOK_INSTANCES: 'auto' });
  expect(DAYBOOK_INSTANCES).toBe(Math.min(availableParallelism(), 8));
});

describe('a variable with our prefix that nothing reads', () => {
  test.each([
    ['DAYBOOK_INSTANCE', 'DAYBOOK_INSTANCES'],
    ['DAYBOOK_DATE', 'DAYBOOK_DATA'],
    ['DAYBOOK_UPSTREAM', 'DAYBOOK_UPSTREAMS'],
    ['DAYBOOK_PEPER_FILE', 'DAYBOOK_PEPPER_FILE'],
    ['DAYBOOK_MASTERKEY_FILE', 'DAYBOOK_MASTER_KEY_FILE'],
    ['DAYBOOK_COLOR', null],
    ['DAYBOOK_', null],
  ])('%s is named with the nearest one: %s', (variable, nearest) =>
    expect(unknownVariables({ [variable]: '1', PATH: '/bin', DAYBOOK_DATA: 'x' })).toEqual([
      { variable, nearest },
    ]),
  );
  test('is not reported if it is ours, of the clients in our examples, or empty', () => {
    const set = Object.fromEntries([...DAYBOOK_VARIABLES, 'DAYBOOK_API_KEY'].map((name) => [name, '1']));
    expect(unknownVariables({ ...set, DAYBOOK_INSTANCE: '' })).toEqual([]);
  });
});
