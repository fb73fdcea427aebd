import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { formatBillionths, formatRest, parseCost } from '#db/reconcile/bill/decimal.ts';
import type { Bill } from '#db/reconcile/bill/line.ts';
import { writeBill } from '#db/reconcile/bill/ndjson.ts';
import { type BillFormat, type BillTerms, joinBills, parseBill } from '#db/reconcile/bill/read-bill.ts';

/** Malformed bills are rejected with their place, and amounts are never approximated in silence. */

const fault = (text: string, format: BillFormat, terms?: BillTerms): string => {
  try {
    parseBill(text, format, terms);
  } catch (error) {
    return (error as Error).message;
  }
  return 'no error';
};

const page = (results: unknown[], rest: object = {}): object => ({
  data: [{ start_time: 1790812800, end_time: 1790899200, results }],
  has_more: false,
  next_page: null,
  ...rest,
});
const cost = (value: unknown, currency = 'usd'): object => ({
  object: 'organization.costs.result',
  amount: { value, currency },
});

describe('a malformed bill is rejected with its place', () => {
  test.each<[string, string, BillFormat, string]>([
    [
      'an amount',
      JSON.stringify(page([cost(1), cost('1,5')])),
      'openai-costs',
      'costs page 1 bucket 1 result 2: The cost "1,5" is not a decimal number of money.',
    ],
    [
      'a currency',
      JSON.stringify(page([cost(1, 'dollars')])),
      'openai-costs',
      'costs page 1 bucket 1 result 1: The currency "dollars" is not a code of ISO 4217.',
    ],
    [
      'a missing amount',
      JSON.stringify(page([{ object: 'x' }])),
      'openai-costs',
      'costs page 1 bucket 1 result 1: "amount": ',
    ],
    [
      'a fraction of a token',
      JSON.stringify(page([{ object: 'x', input_tokens: 1.5 }])),
      'openai-usage',
      'usage page 1 bucket 1 result 1: "input_tokens": is not a whole number.',
    ],
    [
      'a missing page',
      JSON.stringify(page([], { has_more: true, next_page: 'p2' })),
      'openai-costs',
      'costs page 1: More pages follow it, which are missing.',
    ],
    [
      'a page that is there twice',
      JSON.stringify([page([]), page([])]),
      'openai-costs',
      'costs page 2 bucket 1: It has the same time as costs page 1 bucket 1.',
    ],
    ['text that is not JSON', '{"data": [1,', 'anthropic-costs', 'The file: It is not JSON'],
    [
      'another report',
      '{"error": {"message": "no"}}',
      'anthropic-usage',
      'usage_report/messages page 1: "data": ',
    ],
    [
      'a row with too few cells',
      'date,cost\n2026-10-01,1\n\n2026-10-02\n',
      'csv',
      'line 4: It has 1 cells, and the header 2.',
    ],
    [
      'a row after a cell with line ends',
      'date,cost,model\n2026-10-01,1,"a\nb"\n2026-10-02,x,\n',
      'csv',
      'line 4: The cost "x" is not a decimal number of money.',
    ],
    ['a quote that is not closed', 'date,cost\n"2026-10-01,1\n', 'csv', 'line 2: A quote is not closed'],
    ['a day that does not exist', 'date,cost\n2026-02-30,1\n', 'csv', 'line 2: "2026-02-30" is not a date'],
    ['a line that states nothing', 'date,model\n2026-10-01,m\n', 'csv', 'line 2: It has no cost'],
    ['a kind', 'date,kind,cost\n2026-10-01,gift,1\n', 'csv', 'line 2: The kind "gift" is not one of usage'],
    ['a part', 'date,part,cost\n2026-10-01,magic,1\n', 'csv', 'line 2: The part "magic" is not known.'],
    [
      'a column that is missing',
      'date,amount\n2026-10-01,1\n',
      'focus',
      'line 1: The header has no column "BilledCost"',
    ],
    ['a column that is there twice', 'date,date,cost\n', 'csv', 'line 1: The column "date" is there twice.'],
    ['an empty file', '', 'csv', 'line 1: The file is empty.'],
    ['a bill without lines', 'date,cost\n', 'csv', 'The bill: It has no lines'],
  ])('%s', (_name, text, format, expected) => {
    expect(fault(text, format)).toContain(expected);
  });

  test('a file that was cut is not a shorter bill', () => {
    const bill = parseBill('date,cost\n2026-10-01,1\n2026-10-02,2\n', 'csv');
    const lines = [...writeBill(bill)];
    expect(fault(lines.slice(0, -1).join(''), 'bill')).toBe(
      'line 1: The file has 1 of the 2 lines that it states.',
    );
    expect(fault(lines.join('').slice(0, -5), 'bill')).toBe('line 3: It is not JSON.');
  });

  test('bills of two providers are not joined', () => {
    const of = (provider: string): Bill => parseBill('date,cost\n2026-10-01,1\n', 'csv', { provider });
    expect(() => joinBills([of('a'), of('b')])).toThrow("can't be joined");
  });

  test('an error quotes at most the beginning of a value, on one line', () => {
    const message = fault(`date,cost\n2026-10-01,"${'x\n'.repeat(300)}"\n`, 'csv');
    expect(message.length).toBeLessThan(200);
    expect(message).not.toContain('\n');
  });
});

describe('amounts', () => {
  test('are never approximated: billionths and remainder are the whole amount', () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: -(10n ** 29n), max: 10n ** 29n }),
        fc.integer({ min: 0, max: 30 }),
        fc.constantFrom(0, -2),
        (coefficient, digits, shift) => {
          const text = `${coefficient}e-${digits}`;
          const parsed = parseCost(text, shift);
          const exact = coefficient * 10n ** BigInt(30 - digits + shift + 2);
          if (exact % 100n !== 0n) return parsed === null;
          if (parsed === null) return false;
          const { billionths, rest } = parsed;
          return (
            billionths * 10n ** 21n + rest === exact / 100n &&
            rest * 2n <= 10n ** 21n &&
            rest * 2n >= -(10n ** 21n)
          );
        },
      ),
    );
  });

  test.each([
    ['0.1', 100_000_000n],
    ['1e-9', 1n],
    ['1.5E-9', 2n],
    ['-1.5e-9', -2n],
    ['+12.', 12_000_000_000n],
    ['0.0000000004', 0n],
  ])('%s is %s billionths', (text, billionths) => {
    expect(parseCost(text)?.billionths).toBe(billionths);
  });

  test.each(['', '.', '1,5', '1e', 'NaN', 'Infinity', '0x10', '1 000', '1e999', '$1', '1e-31'])(
    '%j is no amount',
    (text) => expect(parseCost(text)).toBeNull(),
  );

  test('are shown without trailing zeros', () => {
    expect([0n, 1_500_000_000n, -1n].map(formatBillionths)).toEqual(['0', '1.5', '-0.000000001']);
    expect(formatRest(-5n * 10n ** 10n)).toBe('-0.00000000000000000005');
  });
});
