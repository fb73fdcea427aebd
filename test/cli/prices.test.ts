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

const nanodollars = (input: number, cached: number, output: number, reasoning: number): object => ({
  input_nanousd: input,
  cached_input_nanousd: cached,
  output_nanousd: output,
  reasoning_nanousd: reasoning,
});

describe('the command line', () => {
  test('says how to begin where there are no prices', async () => {
    expect(await json('price', 'list')).toEqual([]);
    expect((await daybook('price', 'list')).stdout).toContain('price import');
  });

  test('sets prices, each part as told or as its whole', async () => {
    expect(await json('price', 'set', 'house-*', '--input', '2.50', '--output', '10')).toEqual({
      model: 'house-*',
      ...nanodollars(2_500_000_000, 2_500_000_000, 10_000_000_000, 10_000_000_000),
    });
    const all = ['--input', '0.15', '--cached-input', '0.075', '--output', '0.6', '--reasoning', '0.000001'];
    expect(await json('price', 'set', 'gpt-4o', ...all)).toEqual({
      model: 'gpt-4o',
      ...nanodollars(150_000_000, 75_000_000, 600_000_000, 1_000),
    });
    const said = await daybook('price', 'set', 'gpt-4o', ...all);
    expect(said).toMatchObject({
      code: 0,
      stderr: '',
      stdout:
        'Price of gpt-4o: input 0.15, cached input 0.075, output 0.60, reasoning 0.000001, ' +
        'in US dollars per million tokens.\n',
    });
  });

  test('lists them, and a price that is set again to what it is has no new version', async () => {
    expect(await json('price', 'list')).toEqual([
      {
        model: 'gpt-4o',
        ...nanodollars(150_000_000, 75_000_000, 600_000_000, 1_000),
        source: 'manual',
        version: 1,
      },
      {
        model: 'house-*',
        ...nanodollars(2_500_000_000, 2_500_000_000, 10_000_000_000, 10_000_000_000),
        source: 'manual',
        version: 1,
      },
    ]);
    expect((await daybook('price', 'list')).stdout).toMatch(
      /^MODEL +INPUT[^\n]+\ngpt-4o +0\.15 +0\.075 +0\.60 +0\.000001 +manual\nhouse-\* /,
    );
  });

  test.each([
    ['--input', ['price', 'set', 'm', '--input', '2,50', '--output', '1']],
    ['--cached-input', ['price', 'set', 'm', '--input', '1', '--cached-input', '-1', '--output', '1']],
    ['--output', ['price', 'set', 'm', '--input', '1', '--output', '1000.01']],
    ['--reasoning', ['price', 'set', 'm', '--input', '1', '--output', '1', '--reasoning', '0.0000000001']],
    ['not at its end', ['price', 'set', '*m', '--input', '1', '--output', '1']],
    ['no provider "nobody"', ['price', 'import', '--provider', 'nobody']],
    ['Name a provider', ['price', 'import']],
  ])('refuses what is wrong in one line that names it: %s', async (named, args) => {
    const { code, stdout, stderr } = await daybook(...args);
    expect([code, stdout]).toEqual([1, '']);
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
      kept_manual: [{ model: 'gpt-4o', set: nanodollars(150_000_000, 75_000_000, 600_000_000, 1_000) }],
      unchanged: 0,
      skipped: [{ provider: 'openai', model: 'nonesuch', why: 'not in the list' }],
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
      changed: [{ model: 'gpt-4o', before: nanodollars(150_000_000, 75_000_000, 600_000_000, 1_000) }],
      kept_manual: [],
    });
    const listed = await json<{ model: string; source: string; version: number }[]>('price', 'list');
    expect(listed.find(({ model }) => model === 'gpt-4o')).toMatchObject({ source: SOURCE, version: 2 });
  });
});
