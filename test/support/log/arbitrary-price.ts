import * as fc from 'fast-check';
import { PRICE_MAX } from '#db/money.ts';
import { type Conditions, RATE_PARTS, type Rate, type RatePart, type Rule } from '#db/pricing/parts.ts';

/** Prices of every kind that the vocabulary allows. */

const amount = fc.oneof(
  fc.nat(PRICE_MAX),
  fc.nat(10_000_000),
  fc.constantFrom(0, 1, PRICE_MAX, 333_333, 500_000, 999_999, 3_599_999),
);
const parts = Object.fromEntries(RATE_PARTS.map((part) => [part, amount])) as {
  [Part in RatePart]: typeof amount;
};

/** At least one part. */
export const anyRate: fc.Arbitrary<Rate> = fc
  .record(parts, { requiredKeys: [], noNullPrototype: true })
  .filter((rate) => Object.keys(rate).length > 0);

const pad = (value: number): string => String(value).padStart(2, '0');
const timeOfDay = fc.nat(24 * 60 - 1).map((minute) => `${pad(Math.floor(minute / 60))}:${pad(minute % 60)}`);
const isoTime = fc
  .date({ min: new Date('2026-01-01T00:00:00Z'), max: new Date('2027-01-01T00:00:00Z'), noInvalidDate: true })
  .map((date) => date.toISOString());
export const SERVICE_TIERS = ['batch', 'flex', 'priority'];

export const anyConditions: fc.Arbitrary<Conditions> = fc
  .record(
    {
      service_tier: fc.constantFrom(...SERVICE_TIERS),
      input_tokens_above: fc.nat(1_000_000),
      valid_from: isoTime,
      valid_to: isoTime,
      hours: fc
        .record({ from: timeOfDay, to: timeOfDay }, { noNullPrototype: true })
        .filter(({ from, to }) => from !== to),
      upstream: fc.constantFrom('one', 'two'),
    },
    { requiredKeys: [], noNullPrototype: true },
  )
  .filter((when) => Object.keys(when).length > 0);

export const anyRule: fc.Arbitrary<Rule> = fc.record(
  { when: anyConditions, rate: anyRate },
  { noNullPrototype: true },
);
