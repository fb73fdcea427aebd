import { calcPrice, type ModelInfo, type Provider } from '@pydantic/genai-prices';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { MODEL_NAME } from '#db/events/parts.ts';
import { PRICE_MAX } from '#db/money.ts';
import { gatherOffers, providerAt, providerById, snapshotSource } from '#server/read-model/price-snapshot.ts';
import { PriceTable } from '#server/read-model/price-table.ts';
import { storedAs } from '../../support/log/stored.ts';

const AT = new Date('2026-11-21T12:00:00Z');
const LIST = { source: 'genai-prices 1.0.0', at: AT };
const IDS = [
  'anthropic',
  'azure',
  'cerebras',
  'deepseek',
  'fireworks',
  'google',
  'groq',
  'mistral',
  'moonshotai',
  'openai',
  'openrouter',
  'together',
  'x-ai',
];

const tokens = { input_mtok: 2.5, cache_read_mtok: 1.25, output_mtok: 10 };
const model = (id: string, more: Partial<ModelInfo> = {}): ModelInfo => ({
  id,
  match: { equals: id },
  prices: tokens,
  ...more,
});
const list = (id: string, ...models: ModelInfo[]): Provider => ({ id, name: id, api_pattern: '', models });
const gather = (...models: ModelInfo[]) => gatherOffers([list('made', ...models)], undefined, LIST);
const offered = (...models: ModelInfo[]) =>
  gather(...models).offers.map(({ pattern, prices }) => [pattern, prices.input]);

describe('a price list', () => {
  test('becomes names and beginnings, in whole nano-dollars', () => {
    const match = {
      or: [{ equals: 'gpt-4o' }, { equals: 'gpt-4o-2024-08-06' }, { starts_with: 'gpt-4o-x-' }],
    };
    const prices = {
      input: 2_500_000_000,
      cached_input: 1_250_000_000,
      output: 10_000_000_000,
      reasoning: 10_000_000_000,
    };
    expect(gather(model('gpt-4o', { match })).offers).toEqual(
      ['gpt-4o', 'gpt-4o-2024-08-06', 'gpt-4o-x-*'].map((pattern) => ({
        pattern,
        prices,
        source: LIST.source,
        notes: [],
      })),
    );
  });

  test('without a price for cached tokens or reasoning charges them as the rest', () => {
    const [plain, thinking] = gather(
      model('plain', { prices: { input_mtok: 0.15, output_mtok: 0.6 } }),
      model('thinking', { prices: { input_mtok: 2, output_mtok: 8, output_reasoning_mtok: 3 } }),
    ).offers;
    expect(plain?.prices).toEqual({
      input: 150_000_000,
      cached_input: 150_000_000,
      output: 600_000_000,
      reasoning: 600_000_000,
    });
    expect(thinking?.prices).toEqual({
      input: 2_000_000_000,
      cached_input: 2_000_000_000,
      output: 8_000_000_000,
      reasoning: 3_000_000_000,
    });
  });

  test('reports skipped rules, and uses the id if it is one of the names', () => {
    const { offers, skipped } = gather(
      model('both', { match: { or: [{ equals: 'both' }, { contains: 'oth' }] } }),
      model('by-id', { match: { contains: 'by-i' } }),
      model('region.any', { match: { contains: 'us.any' } }),
    );
    expect(offers.map(({ pattern }) => pattern)).toEqual(['both', 'by-id']);
    expect(skipped.map((each) => [each.model, each.why])).toEqual([
      ['both', expect.stringContaining('besides its names')],
      ['by-id', expect.stringContaining('besides its names')],
      ['region.any', expect.stringContaining('matched only by')],
    ]);
  });

  test('gives a name to the first model that takes it, as the list itself does', () => {
    const early = model('early', { match: { starts_with: 'gpt-' }, prices: { ...tokens, input_mtok: 1 } });
    const late = model('late', {
      match: { or: [{ equals: 'gpt-late' }, { equals: 'late' }] },
      prices: { ...tokens, input_mtok: 2 },
    });
    expect(offered(early, late)).toEqual([
      ['gpt-*', 1_000_000_000],
      ['late', 2_000_000_000],
    ]);
  });

  test.each<[string, ModelInfo['prices']]>([
    ['by pictures', { output_image_mtok: 30 }],
    ['for input alone', { input_mtok: 0.02 }],
    ['beyond what a price can be', { input_mtok: PRICE_MAX / 1e9 + 1, output_mtok: 1 }],
    ['with nonsense', { input_mtok: Number.NaN, output_mtok: 1 }],
    ['below nothing', { input_mtok: -1, output_mtok: 1 }],
  ])('priced %s is skipped and reported', (_, prices) => {
    const { offers, skipped } = gather(model('odd', { prices }));
    expect(offers).toEqual([]);
    expect(skipped).toMatchObject([{ provider: 'made', model: 'odd' }]);
  });

  test('with tiers gives the base tier, and says so', () => {
    const prices = {
      input_mtok: { base: 2.5, tiers: [{ start: 271_999_000, price: 5 }] },
      output_mtok: { base: 15, tiers: [{ start: 271_999_000, price: 22.5 }] },
    };
    expect(gather(model('tiered', { prices })).offers).toMatchObject([
      {
        prices: { input: 2_500_000_000, output: 15_000_000_000 },
        notes: [expect.stringContaining('271999')],
      },
    ]);
  });

  test('with prices of today and tomorrow gives those of today, and says when they change', () => {
    const prices = [
      { prices: { ...tokens, input_mtok: 1 } },
      {
        constraint: { type: 'start_date' as const, start_date: '2026-09-01' },
        prices: { ...tokens, input_mtok: 2 },
      },
      {
        constraint: { type: 'start_date' as const, start_date: '2027-01-01' },
        prices: { ...tokens, input_mtok: 3 },
      },
    ];
    const { offers } = gather(model('dated', { prices }));
    expect(offers).toMatchObject([
      { prices: { input: 2_000_000_000 }, notes: [expect.stringContaining('2027-01-01')] },
    ]);
  });

  test('with prices by the hour gives the dearest, so that nothing is charged too low, and says so', () => {
    const hours = { type: 'time_of_date' as const, start_time: '00:30:00Z', end_time: '16:30:00Z' };
    const prices = [
      { prices: { input_mtok: 0.135, output_mtok: 0.55 } },
      { constraint: hours, prices: { input_mtok: 0.27, output_mtok: 1.1 } },
    ];
    expect(gather(model('hourly', { prices })).offers).toMatchObject([
      {
        prices: { input: 270_000_000, output: 1_100_000_000 },
        notes: [expect.stringContaining('time of day')],
      },
    ]);
  });

  test('of a second provider does not change what the first one says', () => {
    const first = list('first', model('a'));
    const second = list('second', model('a', { prices: { ...tokens, input_mtok: 9 } }), model('b'));
    const { offers, skipped } = gatherOffers([first, second], undefined, LIST);
    expect(offers.map(({ pattern, prices }) => [pattern, prices.input])).toEqual([
      ['a', 2_500_000_000],
      ['b', 2_500_000_000],
    ]);
    expect(skipped).toMatchObject([{ provider: 'second', model: 'a' }]);
  });
});

describe('named models', () => {
  const providers = [
    list(
      'first',
      model('claude', { match: { contains: 'claude' } }),
      model('gpt', { match: { starts_with: 'gpt-' } }),
    ),
    list('second', model('other')),
  ];
  const named = (...models: string[]) => gatherOffers(providers, models, LIST);

  test('are priced under just their names, by any rule of any of the lists', () => {
    expect(named('us.claude-9', 'gpt-7', 'other').offers.map(({ pattern }) => pattern)).toEqual([
      'us.claude-9',
      'gpt-7',
      'other',
    ]);
  });
  test('may be a beginning that a list has', () =>
    expect(named('gpt-*').offers.map(({ pattern }) => pattern)).toEqual(['gpt-*']));
  test.each(['unknown', 'gpt-4*', '*'])('that no list has are told: %s', (name) =>
    expect(named(name)).toMatchObject({ offers: [], skipped: [{ model: name, why: 'not in the list' }] }),
  );
});

describe('the installed list', () => {
  test('is told with its version', () => {
    const manifest = JSON.parse(
      readFileSync(path.join(import.meta.dirname, '../../../package.json'), 'utf8'),
    ) as { dependencies: Record<string, string> };
    expect(snapshotSource()).toBe(`genai-prices ${manifest.dependencies['@pydantic/genai-prices']}`);
  });

  test.each<[string, string | undefined]>([
    ['https://api.openai.com/v1', 'openai'],
    ['https://openrouter.ai/api/v1', 'openrouter'],
    ['https://company.openai.azure.com/openai/v1', 'azure'],
    ['http://127.0.0.1:11434/v1', undefined],
  ])('knows whose address %s is', (baseUrl, id) => expect(providerAt(baseUrl)?.id).toBe(id));

  test('has a provider only under its own id', () => {
    expect(providerById('openai')?.id).toBe('openai');
    expect(providerById('my-openai')).toBeUndefined();
    expect(providerById('')).toBeUndefined();
  });

  test.each(IDS)(
    'of %s gives prices that the log takes, and to each name what the list itself says',
    (id) => {
      const provider = providerById(id) as Provider;
      const { offers } = gatherOffers([provider], undefined, LIST);
      expect(offers.length).toBeGreaterThan(5);
      const table = new PriceTable();
      for (const { pattern, prices, source } of offers) {
        expect(pattern).toMatch(MODEL_NAME);
        table.apply(
          storedAs({ type: 'model.priced', model: pattern, prices, source, actor: 'command-line' }, 1),
        );
      }
      const wrong = offers
        .filter(({ notes }) =>
          notes.every((note) => note.startsWith('base tier') || note.includes('changes it')),
        )
        .map(({ pattern }) => pattern.replace(/\*$/, '-unheard-of'))
        .filter((name) => {
          const prices = table.find(name)?.prices;
          const usage = { input_tokens: 1_000, cache_read_tokens: 400, output_tokens: 2_000 };
          const theirs = calcPrice(usage, name, { provider, timestamp: AT })?.total_price ?? Number.NaN;
          const ours = prices
            ? 600 * prices.input + 400 * prices.cached_input + 2_000 * prices.output
            : Number.NaN;
          return !(Math.abs(ours / 1e15 - theirs) < 1e-12);
        });
      expect(wrong).toEqual([]);
    },
  );

  test('is read without the network', () => {
    const fetched = vi.spyOn(globalThis, 'fetch');
    gatherOffers([providerById('openai') as Provider], undefined, LIST);
    expect(fetched).not.toHaveBeenCalled();
    fetched.mockRestore();
  });
});
