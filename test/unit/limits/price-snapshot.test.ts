import { calcPrice, type ModelInfo, type Provider } from '@pydantic/genai-prices';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { MODEL_NAME } from '#db/events/parts.ts';
import { parseEvent } from '#db/events/events.ts';
import { PRICE_MAX } from '#db/money.ts';
import { costOf } from '#db/pricing/cost.ts';
import { rateAt } from '#db/pricing/schedule.ts';
import { setPrice } from '#server/decide/price.ts';
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
  gather(...models).offers.map(({ pattern, terms }) => [pattern, terms.base.input]);

describe('a price list', () => {
  test('becomes names and beginnings, in whole nano-dollars', () => {
    const match = {
      or: [{ equals: 'gpt-4o' }, { equals: 'gpt-4o-2024-08-06' }, { starts_with: 'gpt-4o-x-' }],
    };
    const terms = { base: { input: 2_500_000_000, cache_read: 1_250_000_000, output: 10_000_000_000 } };
    expect(gather(model('gpt-4o', { match })).offers).toEqual(
      ['gpt-4o', 'gpt-4o-2024-08-06', 'gpt-4o-x-*'].map((pattern) => ({
        pattern,
        terms,
        source: LIST.source,
        notes: [],
      })),
    );
  });

  test('has a part for each class, unit and fee, and names those that it can not have', () => {
    const [{ terms, notes } = {}] = gather(
      model('rich', {
        prices: {
          input_mtok: 2,
          cache_read_mtok: 0.2,
          cache_write_mtok: 2.5,
          cache_write_1h_mtok: 4,
          output_mtok: 8,
          output_reasoning_mtok: 3,
          input_audio_mtok: 10,
          output_audio_mtok: 20,
          input_image_mtok: 1,
          output_image_mtok: 30,
          web_searches_kcount: 10,
          requests_kcount: 5,
          input_audio_hours: 0.111,
          cache_audio_read_mtok: 0.4,
          cache_image_read_mtok: 0.2,
          storage_searches_kcount: 2.5,
        },
      }),
    ).offers;
    expect(terms).toEqual({
      base: {
        input: 2_000_000_000,
        cache_read: 200_000_000,
        cache_write_5m: 2_500_000_000,
        cache_write_1h: 4_000_000_000,
        output: 8_000_000_000,
        reasoning: 3_000_000_000,
        audio_input: 10_000_000_000,
        audio_output: 20_000_000_000,
        image_input: 1_000_000_000,
        image_output: 30_000_000_000,
        web_search: 10_000_000,
        per_request: 5_000_000,
        media_hour: 111_000_000,
      },
    });
    // Cached images cost what cache reads cost, so nothing is lost.
    expect(notes).toEqual([
      'not imported: cache_audio_read_mtok: its tokens are priced as cache_read',
      'not imported: storage_searches_kcount: prices have no such part',
    ]);
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
    ['by pages alone', { input_document_kpages: 1 }],
    ['finer than a nano-dollar', { input_mtok: 1e-10 }],
    ['not at all', {}],
    ['beyond what a price can be', { input_mtok: PRICE_MAX / 1e9 + 1, output_mtok: 1 }],
    ['with nonsense', { input_mtok: Number.NaN, output_mtok: 1 }],
    ['below nothing', { input_mtok: -1, output_mtok: 1 }],
  ])('priced %s is skipped and reported', (_, prices) => {
    const { offers, skipped } = gather(model('odd', { prices }));
    expect(offers).toEqual([]);
    expect(skipped).toMatchObject([{ provider: 'made', model: 'odd' }]);
  });

  test('of input alone is for models that return vectors', () => {
    expect(gather(model('vectors', { prices: { input_mtok: 0.02 } })).offers).toMatchObject([
      { terms: { base: { input: 20_000_000 } }, notes: [] },
    ]);
  });

  test('with tiers gives a rule for each, the highest first', () => {
    const prices = {
      input_mtok: {
        base: 2.5,
        tiers: [128_000, 272_000].map((start, index) => ({ start, price: 5 + index })),
      },
      cache_read_mtok: 0.25,
      output_mtok: { base: 15, tiers: [{ start: 272_000, price: 22.5 }] },
    };
    expect(gather(model('tiered', { prices })).offers).toMatchObject([
      {
        terms: {
          base: { input: 2_500_000_000, cache_read: 250_000_000, output: 15_000_000_000 },
          rules: [
            { when: { input_tokens_above: 272_000 }, rate: { input: 6_000_000_000, output: 22_500_000_000 } },
            { when: { input_tokens_above: 128_000 }, rate: { input: 5_000_000_000 } },
          ],
        },
        notes: [],
      },
    ]);
  });

  test('with prices of today and tomorrow gives those of today, and a rule for each that follows', () => {
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
      {
        terms: {
          base: { input: 2_000_000_000 },
          rules: [{ when: { valid_from: '2027-01-01T00:00:00.000Z' }, rate: { input: 3_000_000_000 } }],
        },
        notes: [],
      },
    ]);
  });

  test('with prices by the hour gives a rule for the hours', () => {
    const hours = { type: 'time_of_date' as const, start_time: '00:30:00Z', end_time: '16:30:00Z' };
    const prices = [
      { prices: { input_mtok: 0.135, output_mtok: 0.55 } },
      { constraint: hours, prices: { input_mtok: 0.27, output_mtok: 1.1 } },
    ];
    expect(gather(model('hourly', { prices })).offers).toMatchObject([
      {
        terms: {
          base: { input: 135_000_000, output: 550_000_000 },
          rules: [
            {
              when: { hours: { from: '00:30', to: '16:30' } },
              rate: { input: 270_000_000, output: 1_100_000_000 },
            },
          ],
        },
        notes: [],
      },
    ]);
  });

  test('with a part under some conditions only is skipped, and says which', () => {
    const hours = { type: 'time_of_date' as const, start_time: '00:00:00Z', end_time: '12:00:00Z' };
    const prices = [
      { prices: { ...tokens, web_searches_kcount: 10 } },
      { constraint: hours, prices: tokens },
    ];
    expect(gather(model('partly', { prices }))).toMatchObject({
      offers: [],
      skipped: [{ model: 'partly', why: 'web_search has a price only under some conditions' }],
    });
  });

  test('of a second provider does not change what the first one says', () => {
    const first = list('first', model('a'));
    const second = list('second', model('a', { prices: { ...tokens, input_mtok: 9 } }), model('b'));
    const { offers, skipped } = gatherOffers([first, second], undefined, LIST);
    expect(offers.map(({ pattern, terms }) => [pattern, terms.base.input])).toEqual([
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

const HOURS = [0, 1, 5, 9, 16, 23];
/** Times of the day and of the next year, with short and long prompts that are partly cached. */
const SITUATIONS = [
  ...HOURS.map((hour) => new Date(Date.UTC(2026, 10, 21, hour, 30))),
  new Date('2027-06-01T12:00:00Z'),
].flatMap((at) =>
  [1_000, 128_001, 200_000, 272_001, 600_000].map((input) => ({
    at,
    usage: { input, cached: 400, cacheWrite: 300, output: 2_000, reasoning: 0 },
  })),
);

/** The same usage as the list counts it. */
const listUsage = ({ input, cached, cacheWrite, output }: (typeof SITUATIONS)[number]['usage']) => ({
  input_tokens: input,
  cache_read_tokens: cached,
  cache_write_tokens: cacheWrite,
  output_tokens: output,
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
      for (const { pattern, terms, source } of offers) {
        expect(pattern).toMatch(MODEL_NAME);
        const event = setPrice(undefined, { pattern, plan: null, terms, source, actor: 'command-line' });
        if (event) table.apply(storedAs(parseEvent(event) as typeof event, 1));
      }
      // Of hundreds of models every fifth is priced in all situations, which takes most of the time.
      const isWhole = (index: number): boolean => offers.length <= 200 || index % 5 === 0;
      const wrong = offers.flatMap(({ pattern }, index) => {
        const name = pattern.replace(/\*$/, '-unheard-of');
        const schedule = table.find(name)?.schedule;
        return SITUATIONS.slice(0, isWhole(index) ? undefined : 2)
          .filter(({ at, usage }) => {
            const lists = listUsage(usage);
            const theirs = calcPrice(lists, name, { provider, timestamp: at })?.total_price ?? Number.NaN;
            if (!schedule) return true;
            const rate = rateAt(schedule, {
              minute: at.getTime() / 60_000,
              inputTokens: usage.input,
              serviceTier: undefined,
              upstream: undefined,
            });
            const { whole, fraction } = costOf(usage, rate);
            return !(Math.abs(whole + fraction / 18e6 - theirs * 1e9) < 1e-3);
          })
          .map(({ at, usage }) => [name, at.toISOString(), usage.input]);
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
