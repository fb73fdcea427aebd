import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import type { Price } from '#db/fold/price.ts';
import type { Rate } from '#db/pricing/parts.ts';
import { PRICES_FOUND_MAX } from '#server/read-model/bounds.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { MANUAL, type Offer, planImport, setPrice } from '#server/decide/price.ts';
import { PriceTable } from '#server/read-model/price-table.ts';
import { storedAs, storedEvents } from '../../support/log/stored.ts';

const costing = (input: number): { base: Rate } => ({ base: { input, output: input } });
const priced = (model: string, input: number, source = MANUAL): EventOf<'model.priced'> => ({
  type: 'model.priced',
  model,
  ...costing(input),
  source,
  actor: 'command-line',
});

function tableOf(...events: EventOf<'model.priced'>[]): PriceTable {
  const table = new PriceTable();
  for (const stored of storedEvents(events)) table.apply(stored);
  return table;
}

describe('the price of a model', () => {
  test.each<[string, string, number | undefined]>([
    ['its name goes before any beginning', 'gpt-4o', 1],
    ['the longest beginning decides', 'gpt-4o-mini-2024-07-18', 3],
    ['a shorter beginning where no longer one fits', 'gpt-4o-2024-08-06', 2],
    ['the beginning alone fits itself', 'gpt-4o-', 2],
    ['a name is not a beginning', 'o1-mini', undefined],
    ['nothing is known of others', 'llama', undefined],
    ['letter case makes no difference', 'GPT-4O', 1],
  ])('%s: %s', (_, model, input) => {
    const table = tableOf(
      priced('gpt-4o', 1),
      priced('gpt-4o*', 2),
      priced('gpt-4o-mini*', 3),
      priced('o1', 4),
    );
    expect(table.find(model)?.terms.base.input).toBe(input);
  });

  test('a lone star is for all models without another', () => {
    const table = tableOf(priced('*', 9), priced('a', 1));
    expect(table.find('a')?.terms.base.input).toBe(1);
    expect(table.find('b')?.terms.base.input).toBe(9);
  });

  test('says which price it is, with the version in its stream', () => {
    const table = tableOf(priced('a*', 1), priced('b', 1), priced('a*', 2), priced('a*', 3));
    expect(table.find('abc')).toMatchObject({
      pattern: 'a*',
      plan: null,
      terms: costing(3),
      source: MANUAL,
      version: 3,
    });
    expect(table.find('abc')).toBe(table.find('abcd'));
  });

  test('changes for names that were asked for before', () => {
    const table = tableOf();
    expect(table.find('a')).toBeUndefined();
    table.apply(storedAs(priced('*', 1), 1));
    expect(table.find('a')?.terms.base.input).toBe(1);
    table.apply(storedAs(priced('a', 2), 1));
    expect(table.find('a')?.terms.base.input).toBe(2);
  });

  test('of two that differ in letter case alone the last set counts, each with its own version', () => {
    const table = tableOf(priced('Llama', 1), priced('llama', 2), priced('llama', 3));
    expect(table.find('LLAMA')).toMatchObject({ pattern: 'llama', version: 2 });
    table.apply(storedAs(priced('Llama', 4), 2));
    expect(table.find('llama')).toMatchObject({ pattern: 'Llama', version: 2, terms: costing(4) });
  });

  test('of the demo is 0 until one is set, and it is in no list', () => {
    const table = tableOf(priced('gpt-4o', 1));
    expect(table.find('daybook-demo')).toMatchObject({
      terms: { base: { input: 0, output: 0 } },
      version: 0,
    });
    expect(table.all.map(({ pattern }) => pattern)).toEqual(['gpt-4o']);
    table.apply(storedAs(priced('daybook-*', 7), 1));
    expect(table.find('daybook-demo')?.terms.base.input).toBe(7);
  });

  test('of a plan is apart from that of the provider, with a version of its own', () => {
    const table = tableOf(priced('gpt-4o', 1), priced('gpt-4o*', 2));
    table.apply(storedAs({ ...priced('gpt-4o', 8), plan: 'pro' }, 1));
    expect(table.find('gpt-4o')?.terms.base.input).toBe(1);
    expect(table.findOfPlan('pro', 'gpt-4o')).toMatchObject({ plan: 'pro', version: 1, terms: costing(8) });
    expect(table.findOfPlan('pro', 'gpt-4o-mini')).toBeUndefined();
    expect(table.findOfPlan('other', 'gpt-4o')).toBeUndefined();
    expect(table.get('gpt-4o', 'pro')?.version).toBe(1);
    expect(table.all.map(({ pattern, plan }) => [pattern, plan])).toEqual([
      ['gpt-4o', null],
      ['gpt-4o*', null],
      ['gpt-4o', 'pro'],
    ]);
  });

  test('is found right however many names clients make up', () => {
    const table = tableOf(priced('a*', 1));
    for (let index = 0; index < PRICES_FOUND_MAX * 2 + 10; index++) {
      expect(table.find(`${index % 2 ? 'a' : 'b'}${index}`)?.terms.base.input).toBe(
        index % 2 ? 1 : undefined,
      );
    }
  });

  test('is what a search through all prices finds', () => {
    const name = fc.string({ unit: fc.constantFrom('a', 'b', '-'), minLength: 1, maxLength: 5 });
    const pattern = fc.oneof(
      name,
      name.map((text) => `${text}*`),
      fc.constant('*'),
    );
    fc.assert(
      fc.property(
        fc.array(pattern, { maxLength: 12 }),
        fc.array(name, { minLength: 1, maxLength: 20 }),
        (patterns, names) => {
          const table = tableOf(...patterns.map((each, index) => priced(each, index)));
          for (const model of names) {
            const fitting = table.all.filter(
              (each) =>
                each.pattern === model ||
                (each.pattern.endsWith('*') && model.startsWith(each.pattern.slice(0, -1))),
            );
            const best =
              fitting.find((each) => each.pattern === model) ??
              fitting.toSorted((a, b) => b.pattern.length - a.pattern.length)[0];
            expect(table.find(model)).toBe(best);
          }
        },
      ),
    );
  });
});

const price: Price = { pattern: 'gpt-4o', plan: null, terms: costing(5), source: MANUAL, version: 2 };
const fails = (code: DecisionError['code'], message: string): object =>
  expect.objectContaining({ code, message: expect.stringContaining(message) }) as object;

describe('given a price, when it is set', () => {
  const set = (before: Price | undefined, pattern: string, input: number) =>
    setPrice(before, {
      pattern,
      plan: null,
      terms: costing(input),
      source: MANUAL,
      actor: 'command-line',
    });

  test('to something else, then it is', () => expect(set(price, 'gpt-4o', 6)).toEqual(priced('gpt-4o', 6)));
  test('to what it is, then nothing happens', () => expect(set(price, 'gpt-4o', 5)).toBeNull());
  test('by hand to what an import had set, then it is by hand', () =>
    expect(set({ ...price, source: 'genai-prices 1.0.0' }, 'gpt-4o', 5)).toEqual(priced('gpt-4o', 5)));
  test('for the first time, then it is', () =>
    expect(set(undefined, 'gpt-4o*', 5)).toEqual(priced('gpt-4o*', 5)));
  test('to the same with its fields in another order, then nothing happens', () => {
    const terms = { base: { output: 5, input: 5 } };
    expect(
      setPrice(price, { pattern: 'gpt-4o', plan: null, terms, source: MANUAL, actor: 'command-line' }),
    ).toBeNull();
  });
  test('with a rule that never applies, then its sender is told', () => {
    const when = { valid_from: '2026-02-01T00:00:00Z', valid_to: '2026-01-01T00:00:00Z' };
    const terms = { ...costing(5), rules: [{ when, rate: { input: 1 } }] };
    expect(() =>
      setPrice(price, { pattern: 'gpt-4o', plan: null, terms, source: MANUAL, actor: 'command-line' }),
    ).toThrow(fails('invalid', 'never applies'));
  });
  test.each(['', 'a\nb', 'x'.repeat(257), 'mod\u00e8le'])('for %j, then its sender is told', (pattern) =>
    expect(() => set(undefined, pattern, 1)).toThrow(fails('invalid', 'printable ASCII')),
  );
  test.each(['*-mini', 'gpt*4o', '**'])(
    'for %j, which would never apply, then its sender is told',
    (pattern) => expect(() => set(undefined, pattern, 1)).toThrow(fails('invalid', 'not at its end')),
  );
});

describe('given prices in force, when a list is imported', () => {
  const offer = (pattern: string, input: number): Offer => ({
    pattern,
    terms: costing(input),
    source: 'genai-prices 1.0.0',
    notes: [],
  });
  const inForce = tableOf(
    priced('by-hand', 1),
    priced('old', 1, 'genai-prices 0.9.0'),
    priced('same', 1, 'genai-prices 0.9.0'),
    priced('same-by-hand', 1),
  );
  const offers = ['by-hand', 'old', 'new']
    .map((name) => offer(name, 2))
    .concat(offer('same', 1), offer('same-by-hand', 1));
  const plan = (replaceManual: boolean) =>
    planImport((pattern) => inForce.get(pattern), offers, { replaceManual, actor: 'command-line' });

  test('then only what differs is changed, and a price set by hand stays', () => {
    const { changes, kept, unchanged } = plan(false);
    expect(changes.map(({ event, version }) => [event, version])).toEqual([
      [priced('old', 2, 'genai-prices 1.0.0'), 2],
      [priced('new', 2, 'genai-prices 1.0.0'), 1],
    ]);
    expect(kept.map((each) => each.offer.pattern)).toEqual(['by-hand']);
    expect(unchanged).toBe(2);
  });

  test('and told to, then a price set by hand is changed too', () => {
    const { changes, kept } = plan(true);
    expect(changes.map(({ event }) => event.model)).toEqual(['by-hand', 'old', 'new']);
    expect(kept).toEqual([]);
  });

  test('a second time, then nothing happens', () => {
    for (const { event, version } of plan(true).changes) inForce.apply(storedAs(event, version));
    expect(plan(true)).toMatchObject({ changes: [], kept: [], unchanged: 5 });
  });
});
