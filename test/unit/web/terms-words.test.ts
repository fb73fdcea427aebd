import { describe, expect, it, test } from 'vitest';
import { readAmount, readDollars } from '../../../web/ui/terms/amounts.ts';
import { glanceAtTerms } from '../../../web/ui/terms/glance.ts';
import { describeTerms } from '../../../web/ui/terms/summary.ts';

describe('typed amounts', () => {
  test.for([
    ['60', 60],
    ['1,000,000', 1_000_000],
    ['250k', 250_000],
    ['1.5 M', 1_500_000],
    ['0', 0],
    ['60.0', 60],
    ['2.5000k', 2_500],
    ['1.0000001', null],
    ['0.5', null],
    ['-1', null],
    ['12 apples', null],
    ['1e9', null],
    ['', null],
    ['99999999999999999', null],
  ] as const)('%s is %s', ([text, amount]) => expect(readAmount(text)).toBe(amount));

  test.for([
    ['12.50', 12_500_000_000],
    ['$1,000', 1_000_000_000_000],
    ['0.000000001', 1],
    ['0.0000000001', null],
    ['1.1', 1_100_000_000],
    ['-5', null],
    ['five', null],
  ] as const)('%s in dollars is %s nano-dollars', ([text, amount]) => expect(readDollars(text)).toBe(amount));
});

describe('summaries of limits', () => {
  it('describe unset fields by owner', () => {
    expect(describeTerms({}, 'plan')).toBe('Unlimited.');
    expect(describeTerms({}, 'key')).toBe('No restrictions beyond the account’s limits.');
    expect(describeTerms({}, 'override')).toBe('Same as the plan.');
  });
  it('name the attribution that a key requires or fixes', () => {
    expect(describeTerms({ attribution: { end_user: 'required', tags: { fixed: ['a'] } } }, 'key')).toBe(
      'Required attribution: end user. Fixed attribution: tags.',
    );
  });
  it('distinguish an empty list from an unset one', () => {
    expect(describeTerms({ markup: 2_000, unpriced_models: 'free' }, 'plan')).toBe(
      '20% on top of the cost. Models without a price count as 0.',
    );
    expect(describeTerms({ models: [] }, 'plan')).toBe('No models: all model requests are rejected.');
    expect(describeTerms({ quotas: [] }, 'override')).toBe('No quotas.');
  });
  it('name every limit', () => {
    const terms = {
      models: ['gpt-4o*'],
      origins: ['https://app.example.com', 'none'],
      networks: ['10.0.0.0/8'],
      requests_per_minute: 60,
      concurrent_requests: 4,
      quotas: [
        {
          meter: 'cost_nanousd' as const,
          window: 'month' as const,
          limit: 25_000_000_000,
          enforcement: 'hard' as const,
        },
      ],
      reads: 'account' as const,
    };
    expect(describeTerms(terms, 'key')).toBe(
      [
        'Models: gpt-4o*.',
        'Origins: https://app.example.com and non-browser clients.',
        'Networks: 10.0.0.0/8.',
        'Up to 60 requests per minute and 4 concurrent requests.',
        'Quotas: $25.00 per month (hard limit).',
        'Read access to the whole account.',
      ].join(' '),
    );
    expect(glanceAtTerms(terms)).toEqual([
      'gpt-4o*',
      '2 origins',
      '1 network',
      '60 requests/min',
      '4 concurrent',
      '$25.00/month',
    ]);
  });
});
