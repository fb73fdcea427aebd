import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { formatDollars, parseDollars, PRICE_MAX } from '#db/money.ts';

const runs = { numRuns: 2_000 };

describe('dollars', () => {
  test('are parsed and formatted exactly', () => {
    fc.assert(
      fc.property(fc.nat(PRICE_MAX), (at) => {
        expect(parseDollars(formatDollars(at))).toBe(at);
      }),
      runs,
    );
  });

  test.each<[string, number]>([
    ['2.50', 2_500_000_000],
    ['0', 0],
    ['10', 10_000_000_000],
    ['0.075', 75_000_000],
    ['0.000000001', 1],
    ['1000', PRICE_MAX],
    ['0.1', 100_000_000],
    ['4.35', 4_350_000_000],
  ])('%s are %d nano-dollars', (text, at) => expect(parseDollars(text)).toBe(at));

  test.each([
    '',
    '-1',
    '1e3',
    '.5',
    '1.',
    '2,50',
    '$2',
    '0.0000000001',
    '1000.01',
    '99999',
    ' 1',
    '1 ',
    'NaN',
    '٣',
  ])('%j is rejected rather than guessed at', (text) => expect(parseDollars(text)).toBeNull());

  test.each<[number, string]>([
    [2_500_000_000, '2.50'],
    [75_000_000, '0.075'],
    [1, '0.000000001'],
    [0, '0.00'],
    [15_000_000_000, '15.00'],
  ])('%d nano-dollars are written %s', (at, text) => expect(formatDollars(at)).toBe(text));
});
