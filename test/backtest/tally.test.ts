import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ExactSum } from '#server/backtest/exact-sum.ts';
import { withFewerLines } from '#server/backtest/tally.ts';
import type { BacktestLine, BacktestReport } from '#server/contract/backtest.ts';

/** The sums and lines of a back-test's report. */

test('sums of safe integers are exact, however large they become', () => {
  fc.assert(
    fc.property(fc.array(fc.maxSafeInteger(), { maxLength: 50 }), (values) => {
      const sum = new ExactSum();
      for (const value of values) sum.add(value);
      expect(sum.value).toBe(values.reduce((total, value) => total + BigInt(value), 0n));
    }),
  );
});

const line = (model: string, before: number, after: number): BacktestLine => ({
  ...{ account: 'account1', name: 'Acme', model, requests: 2, rejected: 1 },
  ...{ before_nanousd: String(before), after_nanousd: String(after) },
  ...{ upstream_before_nanousd: String(before), upstream_after_nanousd: String(after) },
});

test('a shorter report keeps the lines that change most, and every sum', () => {
  const lines = [line('a', 10, 10), line('b', 10, 90), line('c', 50, 10), line('d', 7, 8)];
  const report = { object: 'backtest', lines } as unknown as BacktestReport;
  const short = withFewerLines(report, 3).lines;
  expect(short.map(({ account, model }) => [account, model])).toEqual([
    ['', ''],
    ['account1', 'b'],
    ['account1', 'c'],
  ]);
  expect(short[0]).toMatchObject({ requests: 4, rejected: 2, before_nanousd: '17', after_nanousd: '18' });
  expect(withFewerLines(report, 4)).toBe(report);
});
