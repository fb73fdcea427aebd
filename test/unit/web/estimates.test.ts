import { expect, test } from 'vitest';
import { USAGE_SOURCES, type UsageSource } from '#db/events/endings.ts';
import { isEstimated } from '#db/fold/estimated.ts';
import { setLocale } from '../../../web/lib/format/show.ts';
import { correctedPart, estimatedShare, estimateOf } from '../../../web/lib/format/usage-source.ts';

setLocale('en');

test('usage is marked as estimated unless the provider reported it, or there was none', () => {
  const marked = (Object.keys(USAGE_SOURCES) as UsageSource[]).filter(
    (source) => estimateOf(source) !== null,
  );
  expect(marked).toEqual(['counted', 'estimated', 'implausible']);
  expect(isEstimated(null)).toBe(false);
});

test('a sum states its estimated share, by cost or else by requests', () => {
  const sum = {
    ...{ cost_nanousd: '1000', estimated_cost_nanousd: '250', requests: 2, estimated: 1 },
    ...{ corrections: 0, correction_cost_nanousd: '0' },
  };
  expect(estimatedShare(sum)).toBe('25% estimated');
  expect(estimatedShare({ ...sum, cost_nanousd: '0', estimated_cost_nanousd: '0' })).toBe('50% estimated');
  expect(estimatedShare({ ...sum, cost_nanousd: 1_000_000n })).toBe('under 0.1% estimated');
  expect(estimatedShare({ ...sum, estimated_cost_nanousd: 0n })).toBeNull();
});

test('a sum states its corrections and their part of the cost', () => {
  const sum = {
    cost_nanousd: '1000',
    estimated_cost_nanousd: '0',
    corrections: 0,
    correction_cost_nanousd: '0',
  };
  expect(correctedPart(sum)).toBeNull();
  expect(correctedPart({ ...sum, corrections: 1, correction_cost_nanousd: '-420000000' })).toBe(
    '1 correction (−\u2060$0.42)',
  );
  expect(correctedPart({ ...sum, corrections: 2, correction_cost_nanousd: 3_000_000_000n })).toBe(
    '2 corrections (+\u2060$3.00)',
  );
  // Of tokens alone, or of amounts that cancel out.
  expect(correctedPart({ ...sum, corrections: 2 })).toBe('2 corrections (+\u2060$0)');
});
