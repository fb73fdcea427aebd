import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Bucket, UsageGroup, type UsageQuery } from '#server/contract/usage.ts';
import { planUsage, type UsagePlan } from '#server/read/usage-plan.ts';

const NOW = Date.parse('2027-01-31T13:37:42.123Z');
const KEY = { account: 'Account1', key: 'Key00001' };
const ACCOUNT = { account: 'Account1', key: null };
const ALL = { account: null, key: null };

const at = (text: string): Date => new Date(text);
/** A plan in a few words: table, from, to. */
function planned(query: UsageQuery, scope: typeof KEY | typeof ACCOUNT | typeof ALL): string {
  const plan = planUsage(query, scope, NOW);
  return typeof plan === 'string'
    ? plan
    : `${plan.table} ${new Date(plan.fromMs).toISOString()} ${new Date(plan.toMs).toISOString()}`;
}

describe('the plan of a usage report', () => {
  test('is of today, in UTC, where no time is named', () => {
    expect(planned({}, KEY)).toBe('usage_day 2027-01-31T00:00:00.000Z 2027-02-01T00:00:00.000Z');
    expect(planned({}, ACCOUNT)).toBe('usage_day_account 2027-01-31T00:00:00.000Z 2027-02-01T00:00:00.000Z');
    expect(planned({}, ALL)).toBe('usage_hour_total 2027-01-31T00:00:00.000Z 2027-01-31T14:00:00.000Z');
    // A day that has just ended is whole, and none of the next is in it.
    expect(planned({ to: at('2027-01-30') }, KEY)).toBe(
      'usage_day 2027-01-29T00:00:00.000Z 2027-01-30T00:00:00.000Z',
    );
  });

  test('uses the coarsest table that can answer the query', () => {
    expect(planned({ from: at('2027-01-31T12:34:10Z') }, KEY)).toBe(
      'usage_minute 2027-01-31T12:34:00.000Z 2027-01-31T13:38:00.000Z',
    );
    expect(planned({ from: at('2027-01-01'), bucket: 'day' }, KEY)).toMatch('usage_day 2027-01-01T');
    expect(planned({ from: at('2027-01-01'), bucket: 'day' }, ACCOUNT)).toMatch(
      'usage_day_account 2027-01-01T',
    );
    expect(planned({ from: at('2027-01-01'), group_by: ['model'] }, ACCOUNT)).toMatch(
      'usage_day 2027-01-01T',
    );
    expect(planned({ from: at('2027-01-01'), bucket: 'day' }, ALL)).toMatch('usage_hour_total 2027-01-01T');
    expect(planned({ from: at('2027-01-31T12:34:00Z'), bucket: 'minute' }, ALL)).toMatch(
      'usage_minute_total 2027-01-31T12:34',
    );
    expect(planned({ from: at('2027-01-30T13:37:00Z'), group_by: ['account'] }, ALL)).toMatch(
      'usage_hour 2027-01-30T13:00',
    );
    expect(planned({ from: at('2027-01-31T12:37:00Z') }, ACCOUNT)).toMatch('usage_minute 2027-01-31T12:37');
    expect(planned({ from: at('2027-01-30T13:37:00Z') }, ACCOUNT)).toMatch('usage_hour 2027-01-30T13:00');
    expect(planned({ from: at('2027-01-30T13:00:00Z'), group_by: ['account'] }, ALL)).toMatch(
      'usage_hour 2027-01-30T13:00',
    );
    expect(planned({ from: at('2027-01-24T13:00:00Z'), group_by: ['account'] }, ALL)).toMatch(
      'usage_day_account 2027-01-24T00:00',
    );
    expect(planned({ from: at('2027-01-01'), account: 'Account1' }, ALL)).toMatch(
      'usage_day_account 2027-01-01T',
    );
    expect(planned({ from: at('2027-01-30T13:00:00Z'), bucket: 'hour', model: 'a' }, ACCOUNT)).toMatch(
      'usage_hour_key 2027-01-30T13:00',
    );
  });

  test('rounds outwards where the finer rows are gone', () => {
    expect(planned({ from: at('2027-01-10T10:20:30Z'), to: at('2027-01-12T01:00:01Z') }, KEY)).toBe(
      'usage_day 2027-01-10T00:00:00.000Z 2027-01-13T00:00:00.000Z',
    );
    expect(planned({ from: at('2027-01-10T10:20:30Z'), to: at('2027-01-12T01:00:01Z') }, ACCOUNT)).toBe(
      'usage_hour 2027-01-10T10:00:00.000Z 2027-01-12T02:00:00.000Z',
    );
  });

  test('says what the tables do not have', () => {
    expect(planned({ from: at('2027-01-20'), bucket: 'minute' }, ACCOUNT)).toContain('kept for 48 hours');
    expect(planned({ from: at('2027-01-20'), bucket: 'hour' }, KEY)).toContain('bucket=day');
    expect(planned({ from: at('2020-01-01'), bucket: 'hour' }, ACCOUNT)).toContain('More than 2880');
    expect(planned({ from: at('2027-01-31'), to: at('2027-01-31') }, ACCOUNT)).toBe(
      'from must be before to.',
    );
  });

  test('covers the whole requested range, and reads no rows cut by its bounds or buckets', () => {
    const scope = fc.constantFrom(KEY, ACCOUNT, ALL);
    const time = fc.integer({ min: NOW - 90 * 86_400_000, max: NOW + 86_400_000 }).map((ms) => new Date(ms));
    const query = fc.record(
      {
        from: time,
        to: time,
        bucket: fc.constantFrom(...Bucket.options),
        group_by: fc.subarray([...UsageGroup.options]),
        model: fc.constant('a'),
      },
      { requiredKeys: ['from'] },
    );
    const unitMs = { minute: 60_000, hour: 3_600_000, day: 86_400_000 };
    fc.assert(
      fc.property(query, scope, (asked, who) => {
        const plan = planUsage(asked, who, NOW);
        if (typeof plan === 'string') return;
        const { fromMs, toMs, unit: rows, bucket } = plan satisfies UsagePlan;
        expect(fromMs).toBeLessThanOrEqual(asked.from.getTime());
        expect(toMs).toBeGreaterThanOrEqual(asked.to?.getTime() ?? NOW);
        for (const unit of [rows, bucket ?? rows])
          expect([fromMs % unitMs[unit], toMs % unitMs[unit]]).toEqual([0, 0]);
        expect(unitMs[rows]).toBeLessThanOrEqual(unitMs[bucket ?? rows]);
        const ofRequests = (asked.group_by ?? []).some(
          (group) => !['account', 'key', 'model'].includes(group),
        );
        if (ofRequests) expect([plan.table, plan.column]).toEqual(['request', 'ended_at']);
        else if (asked.model !== undefined || who.key !== null)
          expect(plan.table).toMatch(/^usage_(minute|hour_key|day)$/);
      }),
    );
  });
});
