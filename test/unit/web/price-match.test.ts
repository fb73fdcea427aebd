import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { PRICE_MAX } from '#db/money.ts';
import type { Rate } from '#db/pricing/parts.ts';
import type { PlanRow } from '#server/contract/accounts.ts';
import type { PriceRow } from '#server/contract/models.ts';
import { PriceTable } from '#server/read-model/price-table.ts';
import {
  chargesByPlan,
  NO_PRICE,
  priceFor,
  readTyped,
  typedFrom,
  withPrice,
} from '../../../web/features/models/price-match.ts';
import { storedAs } from '../../support/log/stored.ts';

const amount = fc.nat(PRICE_MAX);
const anyBase: fc.Arbitrary<Rate> = fc.record(
  {
    input: amount,
    cache_read: amount,
    cache_write_5m: amount,
    cache_write_1h: amount,
    output: amount,
    reasoning: amount,
    web_search: amount,
  },
  { requiredKeys: ['input'], noNullPrototype: true },
);
/** Few letters, so that names meet. */
const name = fc.string({ unit: fc.constantFrom('a', 'b', 'A', '-'), minLength: 1, maxLength: 4 });

describe('prices on the page', () => {
  test('a model is shown with the price that its requests are charged at', () => {
    const pattern = fc
      .tuple(name, fc.boolean())
      .map(([text, isBeginning]) => (isBeginning ? `${text}*` : text));
    // Of two that differ only in case the last one set applies, which a list does not show.
    const patterns = fc.uniqueArray(fc.oneof(pattern, fc.constant('*')), {
      selector: (text) => text.toLowerCase(),
      maxLength: 8,
    });
    fc.assert(
      fc.property(patterns, name, (models, model) => {
        const table = new PriceTable();
        for (const each of models)
          table.apply(
            storedAs(
              {
                type: 'model.priced',
                model: each,
                base: { input: 1, output: 1 },
                source: 'manual',
                actor: 'command-line',
              },
              1,
            ),
          );
        const rows = table.all.map(({ pattern: text, terms, plan, source, version }) => ({
          model: text,
          plan,
          ...terms,
          source,
          version,
        }));
        expect(priceFor(model, rows)?.model).toBe(table.find(model)?.pattern);
      }),
    );
  });

  test('the charges of each plan are its sell price, else the cost with its mark-up', () => {
    const priced = { source: 'manual', version: 1 };
    const prices: PriceRow[] = [
      { model: 'gpt-*', plan: null, base: { input: 1_000_000_000, output: 2_000_000_000 }, ...priced },
      { model: 'gpt-5*', plan: 'retail', base: { input: 3_000_000_000, output: 0 }, ...priced },
    ];
    const plan = (title: string, markup?: number): PlanRow => {
      const terms = markup === undefined ? {} : { markup };
      return { name: title, terms, state: 'active', accounts: 0, version: 1 };
    };
    const plans = [plan('team', 2_000), plan('retail', 5_000), plan('basic'), plan('old', 1)];
    plans[3] = { ...(plans[3] as PlanRow), state: 'retired' };
    const of = (model: string, all = prices) =>
      chargesByPlan(model, all, plans).map((each) => [each.plan, each.way, each.example]);
    // 10,000 input and 1,000 output tokens cost 12 thousandths of a dollar.
    expect(of('gpt-5-mini')).toEqual([
      ['team', 'markup', 14_400_000],
      ['retail', 'sell', 30_000_000],
      ['basic', 'cost', 12_000_000],
    ]);
    expect(of('gpt-4')[1]).toEqual(['retail', 'markup', 18_000_000]);
    expect(of('other')[0]).toEqual(['team', 'markup', null]);
    const terms = { base: { input: 1_000_000_000, output: 0 } };
    const next = withPrice(prices, { model: 'GPT-5*', plan: 'retail', terms });
    expect(next).toHaveLength(2);
    expect(of('gpt-5-mini', next)[1]).toEqual(['retail', 'sell', 10_000_000]);
  });

  test('round-trip through typed text exactly, with the parts and rules that are not typed', () => {
    const rules = [{ when: { service_tier: 'batch' }, rate: { input: 1 } }];
    fc.assert(
      fc.property(anyBase, (base) => {
        expect(readTyped(typedFrom(base), { base, rules })).toEqual({ terms: { base, rules } });
        expect(readTyped(typedFrom(base), { base })).toEqual({ terms: { base } });
      }),
    );
  });

  test('a field that is emptied has no price of its own any more', () => {
    const before = { base: { input: 1, cache_read: 2, output: 3, web_search: 4 } };
    expect(readTyped({ ...NO_PRICE, input: '$2.50', cache_read: ' ', output: '10' }, before)).toEqual({
      terms: { base: { input: 2_500_000_000, output: 10_000_000_000, web_search: 4 } },
    });
  });

  test('an error is shown at its own field only', () => {
    const read = readTyped({ ...NO_PRICE, input: '2,50', reasoning: '0.0000000001' }, null);
    expect('wrong' in read && Object.keys(read.wrong)).toEqual(['input', 'reasoning']);
  });
});
