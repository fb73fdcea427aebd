import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { commandLine } from '../support/servers/command-line.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';

/** Prices by the command line, on a real store, as an operator works with them. */

const CREDENTIAL = 'sk-canary-of-the-prices';
const SOURCE = expect.stringMatching(/^genai-prices \d+\.\d+\.\d+$/) as string;

let dataDir: string;
let database: TestDatabase;
beforeAll(async () => {
  dataDir = await makeTestDirectory();
  database = await createDatabase();
});
afterAll(async () => {
  await database?.[Symbol.asyncDispose]();
  await removeTestDirectory(dataDir);
});

// Whoever has a provider configured where the tests run is not asked about it here.
const env = () => ({ DAYBOOK_DATA: dataDir, DATABASE_URL: database.url });
const { daybook, json } = commandLine(env);

describe('the command line', () => {
  test('says how to begin where there are no prices', async () => {
    expect(await json('price', 'list')).toEqual([]);
    expect((await daybook('price', 'list')).stdout).toContain('price import');
  });

  const MINI = {
    base: { input: 150_000_000, cache_read: 75_000_000, output: 600_000_000, reasoning: 1 },
  };
  const MINI_OPTIONS = [
    '--input',
    '0.15',
    '--cache-read',
    '0.075',
    '--output',
    '0.6',
    '--reasoning',
    '0.000000001',
  ];
  const HOUSE = {
    base: { input: 2_500_000_000, output: 10_000_000_000, web_search: 10_000_000, per_request: 5_000_000 },
    rules: [
      { when: { service_tier: 'batch' }, rate: { input: 1_250_000_000, output: 5_000_000_000 } },
      { when: { input_tokens_above: 200_000 }, rate: { input: 5_000_000_000 } },
      { when: { hours: { from: '16:30', to: '00:30' } }, rate: { input: 2_000_000_000 } },
    ],
  };

  test('sets prices with classes, units, fees and rules', async () => {
    const options = [
      ...['--input', '2.50', '--output', '10', '--web-search', '0.01', '--per-request', '0.005'],
      ...['--rule', 'service_tier=batch input=1.25 output=5', '--rule', 'input_tokens_above=200000 input=5'],
      ...['--rule', 'hours=16:30-00:30 input=2'],
    ];
    expect(await json('price', 'set', 'house-*', ...options)).toEqual({
      model: 'house-*',
      plan: null,
      ...HOUSE,
    });
    expect(await json('price', 'set', 'gpt-4o', ...MINI_OPTIONS)).toMatchObject({ model: 'gpt-4o', ...MINI });
    const said = await daybook('price', 'set', 'gpt-4o', ...MINI_OPTIONS);
    expect(said).toMatchObject({
      code: 0,
      stderr: '',
      stdout: 'Price of gpt-4o: input 0.15, cache_read 0.075, output 0.60, reasoning 0.000000001.\n',
    });
  });

  test('lists them, and a price that is set again to what it is has no new version', async () => {
    expect(await json('price', 'list')).toEqual([
      { model: 'gpt-4o', plan: null, ...MINI, source: 'manual', version: 1 },
      { model: 'house-*', plan: null, ...HOUSE, source: 'manual', version: 1 },
    ]);
    expect((await daybook('price', 'list')).stdout).toBe(
      [
        'MODEL    INPUT  CACHE READ  CACHE WRITE  OUTPUT  REASONING    SOURCE',
        'gpt-4o   0.15   0.075       -            0.60    0.000000001  manual',
        'house-*  2.50   -           -            10.00   -            manual',
        '  web_search 0.01, per_request 0.005',
        '  service tier batch: input 1.25, output 5.00',
        '  above 200000 input tokens: input 5.00',
        '  16:30 to 00:30 UTC: input 2.00',
        '',
      ].join('\n'),
    );
  });

  test.each([
    ['--input', ['price', 'set', 'm', '--input', '2,50', '--output', '1']],
    ['--cache-read', ['price', 'set', 'm', '--input', '1', '--cache-read', '-1', '--output', '1']],
    ['--output', ['price', 'set', 'm', '--input', '1', '--output', '1000.01']],
    ['--reasoning', ['price', 'set', 'm', '--input', '1', '--output', '1', '--reasoning', '0.0000000001']],
    ['must have a price', ['price', 'set', 'm']],
    ['NAME=VALUE', ['price', 'set', 'm', '--input', '1', '--rule', 'batch input=1']],
    ['input_tokens', ['price', 'set', 'm', '--input', '1', '--rule', 'input_tokens=5 input=1']],
    ['must have a condition', ['price', 'set', 'm', '--input', '1', '--rule', 'input=1']],
    ['a time in UTC', ['price', 'set', 'm', '--input', '1', '--rule', 'hours=24:00-1:00 input=1']],
    ['no plan "nobody"', ['price', 'set', 'm', '--input', '1', '--plan', 'nobody']],
    ['not at its end', ['price', 'set', '*m', '--input', '1', '--output', '1']],
    ['no provider "nobody"', ['price', 'import', '--provider', 'nobody']],
    ['Name a provider', ['price', 'import']],
  ])('refuses what is wrong in one line that names it: %s', async (named, args) => {
    const { code, stdout, stderr } = await daybook(...args);
    expect([code, stdout]).toEqual([expect.toBeOneOf([1, 3]), '']);
    expect(stderr).toMatch(/^daybook: [^\n]+\n$/);
    expect(stderr).toContain(named);
  });

  const upstreams = JSON.stringify([
    { name: 'local', base_url: 'http://127.0.0.1:11434/v1', models: ['llama*'] },
    {
      name: 'deepseek',
      base_url: 'https://api.deepseek.com/v1',
      api_key: CREDENTIAL,
      models: ['deepseek-*'],
    },
  ]);

  test('import --dry-run lists the prices of the configured upstreams and imports none', async () => {
    const { code, stdout } = await commandLine(() => ({ ...env(), DAYBOOK_UPSTREAMS: upstreams })).daybook(
      'prices',
      'import',
      '--dry-run',
    );
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^Would import from genai-prices \d+\.\d+\.\d+, provider deepseek:\n {2}new +deepseek-/,
    );
    expect(stdout).not.toContain(CREDENTIAL);
    expect(await json('price', 'list')).toHaveLength(2);
  });

  type Imported = {
    source: string;
    providers: string[];
    dry_run: boolean;
    changed: { model: string; before: unknown }[];
    kept_manual: { model: string }[];
    unchanged: number;
    skipped: unknown[];
  };

  test('imports only the named models, and keeps prices set by hand', async () => {
    const imported = await json<Imported>(
      'price',
      'import',
      '--provider',
      'openai',
      '--models',
      'gpt-4o,gpt-4o-mini,nonesuch',
    );
    expect(imported).toMatchObject({
      source: SOURCE,
      providers: ['openai'],
      dry_run: false,
      changed: [{ model: 'gpt-4o-mini', before: null }],
      kept_manual: [{ model: 'gpt-4o', set: MINI }],
      unchanged: 0,
      skipped: [{ provider: 'openai', model: 'nonesuch', reason: 'not in the list' }],
    });
    expect(await json('price', 'list')).toMatchObject([
      { model: 'gpt-4o', source: 'manual' },
      { model: 'gpt-4o-mini', source: SOURCE },
      { model: 'house-*' },
    ]);
  });

  test('takes a whole list, and a second time nothing', async () => {
    const options = ['--provider', 'openai', '--provider', 'openrouter'];
    const first = await json<Imported>('prices', 'import', ...options);
    expect(first.changed.length).toBeGreaterThan(600);
    // One transaction: the last batch of the log has all of them.
    const superuser = await database.superuser();
    const { rows } = await superuser.query(
      'select event_count from daybook.log order by last_position desc limit 1',
    );
    await superuser.end();
    expect(rows).toEqual([{ event_count: first.changed.length }]);
    expect(first).toMatchObject({
      providers: ['openai', 'openrouter'],
      kept_manual: [{ model: 'gpt-4o' }],
      unchanged: 1,
    });
    const second = await json<Imported>('prices', 'import', ...options);
    expect(second).toMatchObject({
      changed: [],
      kept_manual: [{ model: 'gpt-4o' }],
      unchanged: first.changed.length + 1,
    });
    expect(await json('price', 'list')).toHaveLength(first.changed.length + 3);
  });

  test('replaces what was set by hand when it is told to', async () => {
    expect(await json('price', 'import', '--provider', 'openai', '--replace-manual')).toMatchObject({
      changed: [{ model: 'gpt-4o', before: MINI }],
      kept_manual: [],
    });
    const listed = await json<{ model: string; source: string; version: number }[]>('price', 'list');
    expect(listed.find(({ model }) => model === 'gpt-4o')).toMatchObject({ source: SOURCE, version: 2 });
  });

  const file = async (name: string, text: string): Promise<string> => {
    const full = path.join(dataDir, name);
    await writeFile(full, text);
    return full;
  };
  const CONTRACT = [
    'source: contract of 2026',
    'prices:',
    '  contracted*:',
    '    input: 5',
    '    cache_write_1h: 10.50',
    '    rules:',
    '      - when: {service_tier: batch}',
    '        input: 2.50',
  ];

  test('imports a file that an operator brings, after a diff part by part', async () => {
    const name = await file('contract.yaml', CONTRACT.join('\n'));
    expect((await daybook('price', 'import', '--file', name, '--dry-run')).stdout).toBe(
      [
        'Would import from contract of 2026:',
        '  new      contracted*  input 5.00, cache_write_1h 10.50; service tier batch: input 2.50',
        '1 would change, 0 unchanged, 0 kept, 0 skipped. Dollars: of tokens and characters per million, of ' +
          'others each.',
        '',
      ].join('\n'),
    );
    await daybook('price', 'import', '--file', name);
    const listed = await json<{ model: string }[]>('price', 'list');
    expect(listed.find(({ model }) => model === 'contracted*')).toEqual({
      model: 'contracted*',
      plan: null,
      base: { input: 5_000_000_000, cache_write_1h: 10_500_000_000 },
      rules: [{ when: { service_tier: 'batch' }, rate: { input: 2_500_000_000 } }],
      source: 'contract of 2026',
      version: 1,
    });
    const changed = CONTRACT.join('\n').replace('input: 5', 'input: 4').replace('batch', 'flex');
    const next = await file('contract.yaml', `${changed}\n  other: {output: 1}`);
    expect((await daybook('price', 'import', '--file', next, '--dry-run')).stdout).toContain(
      [
        '  changed  contracted*',
        '             input: 5.00 -> 4.00',
        '             - service tier batch: input 2.50',
        '             + service tier flex: input 2.50',
        '  new      other  output 1.00',
      ].join('\n'),
    );
  });

  test('imports a list in the format of genai-prices from a file', async () => {
    const list = [
      {
        id: 'made',
        models: [
          {
            id: 'tiered',
            match: { starts_with: 'tiered-' },
            prices: [
              { prices: { input_mtok: { base: 1, tiers: [{ start: 1_000, price: 2 }] }, output_mtok: null } },
              { constraint: { start_time: '16:30:00Z', end_time: '00:30:00Z' }, prices: { input_mtok: 0.5 } },
            ],
          },
        ],
      },
    ];
    const name = await file('list.json', JSON.stringify(list));
    expect(await json('price', 'import', '--file', name)).toMatchObject({
      source: 'file list.json',
      providers: ['made'],
      changed: [
        {
          model: 'tiered-*',
          after: {
            base: { input: 1_000_000_000 },
            rules: [
              { when: { hours: { from: '16:30', to: '00:30' } }, rate: { input: 500_000_000 } },
              { when: { input_tokens_above: 1_000 }, rate: { input: 2_000_000_000 } },
            ],
          },
        },
      ],
    });
  });

  test.each([
    ['is neither YAML nor JSON', '{'],
    ['source must be', 'prices: {a: {input: 1}}'],
    ['prices.a: input is not a price', 'source: s\nprices: {a: {input: -1}}'],
    ['rules.0', 'source: s\nprices: {a: {input: 1, rules: [{when: {weekday: 5}, input: 1}]}}'],
    ['models', '[{"id": "made"}]'],
  ])('refuses a file that %s', async (problem, text) => {
    const { code, stderr } = await daybook('price', 'import', '--file', await file('bad.yaml', text));
    expect(code).toBe(1);
    expect(stderr).toMatch(/^daybook: bad\.yaml[^\n]+\n$/);
    expect(stderr).toContain(problem);
  });
});
