import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { PRICE_MAX, type Prices } from '#db/money.ts';
import { PriceTable } from '#server/read-model/price-table.ts';
import { priceFor, readTyped, typedFrom } from '../../../web/features/models/price-match.ts';
import { storedAs } from '../../support/log/stored.ts';

const amount = fc.nat(PRICE_MAX);
const prices: fc.Arbitrary<Prices> = fc.record({
  input: amount,
  cached_input: amount,
  output: amount,
  reasoning: amount,
});
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
                prices: { input: 1, cached_input: 1, output: 1, reasoning: 1 },
                source: 'manual',
                actor: 'command-line',
              },
              1,
            ),
          );
        const rows = table.all.map(({ pattern: text, ...rest }) => ({ model: text, ...rest }));
        expect(priceFor(model, rows)?.model).toBe(table.find(model)?.pattern);
      }),
    );
  });

  test('round-trip through typed text exactly', () => {
    fc.assert(
      fc.property(prices, (each) => {
        expect(readTyped(typedFrom(each))).toEqual({ prices: each });
      }),
    );
  });

  test('unset, cached input defaults to input, and reasoning to output', () => {
    expect(readTyped({ input: '$2.50', cached_input: ' ', output: '10', reasoning: '' })).toEqual({
      prices: {
        input: 2_500_000_000,
        cached_input: 2_500_000_000,
        output: 10_000_000_000,
        reasoning: 10_000_000_000,
      },
    });
  });

  test('an error is shown at its own field only', () => {
    const read = readTyped({ input: '2,50', cached_input: '', output: '', reasoning: '0.0000000001' });
    expect('wrong' in read && Object.keys(read.wrong)).toEqual(['input', 'output', 'reasoning']);
  });
});
