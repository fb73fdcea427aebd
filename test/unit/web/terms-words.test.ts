import { describe, expect, it, test } from 'vitest';
import { readAmount, readDollars } from '../../../web/ui/terms/amounts.ts';
import { describeTerms, glanceAtTerms } from '../../../web/ui/terms/summary.ts';

describe('amounts, as people write them', () => {
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
    ['12.50', 12_500_000],
    ['$1,000', 1_000_000_000],
    ['0.000001', 1],
    ['0.0000001', null],
    ['1.1', 1_100_000],
    ['-5', null],
    ['five', null],
  ] as const)('%s in dollars is %s micro-dollars', ([text, amount]) =>
    expect(readDollars(text)).toBe(amount),
  );
});

describe('terms in words', () => {
  it('tell what is absent by whose they are', () => {
    expect(describeTerms({}, 'plan')).toBe('Everything, without a limit.');
    expect(describeTerms({}, 'key')).toContain('All that its account may use');
    expect(describeTerms({}, 'override')).toBe('As in the plan.');
  });
  it('tell an empty list from an absent one', () => {
    expect(describeTerms({ models: [] }, 'plan')).toBe('No models: every call of a model is refused.');
    expect(describeTerms({ quotas: [] }, 'override')).toBe('No quotas.');
  });
  it('name everything that is limited', () => {
    const terms = {
      models: ['gpt-4o*'],
      origins: ['https://app.example.com', 'none'],
      networks: ['10.0.0.0/8'],
      requests_per_minute: 60,
      concurrent_requests: 4,
      quotas: [
        {
          meter: 'cost_microusd' as const,
          window: 'month' as const,
          limit: 25_000_000,
          enforcement: 'hard' as const,
        },
      ],
      reads: 'account' as const,
    };
    expect(describeTerms(terms, 'key')).toBe(
      'Models: gpt-4o*. Web pages of https://app.example.com, and programs. From 10.0.0.0/8. At most 60 requests a minute and 4 at once. Up to $25.00 a month, never above. Reads the usage and requests of its whole account.',
    );
    expect(glanceAtTerms(terms)).toEqual([
      'gpt-4o*',
      '2 origins',
      '1 network',
      '60 requests/min',
      '4 at once',
      '$25.00/month',
    ]);
  });
});
