import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { showCost, showCount, showShort, showTime } from '../../../web/lib/show.ts';

/**
 * Figures are written as the platform's own formats would, which are too slow to make for the first drawing
 * of a page.
 */

const amount = fc.oneof(
  fc.integer({ min: -20_000, max: 20_000 }),
  fc.integer({ min: -10_000_000, max: 10_000_000 }),
  fc.integer({ min: -(10 ** 14), max: 10 ** 14 }),
);

test('whole figures are grouped by thousands', () => {
  const whole = new Intl.NumberFormat('en-GB');
  fc.assert(
    fc.property(amount, (value) => {
      expect(showCount(value)).toBe(whole.format(value));
    }),
  );
});

test('large figures are shortened to the nearest tenth of their unit', () => {
  const short = new Intl.NumberFormat('en-US', {
    notation: 'compact',
    maximumFractionDigits: 1,
    roundingMode: 'halfCeil',
  });
  expect([9_999, 10_000, 12_345, 999_949, 999_950, 1_000_000, 1_250_000_000, 2.5e12].map(showShort)).toEqual([
    '9,999',
    '10K',
    '12.3K',
    '999.9K',
    '1M',
    '1M',
    '1.3B',
    '2.5T',
  ]);
  fc.assert(
    fc.property(
      amount.filter((value) => Math.abs(value) >= 10_000),
      (value) => {
        // Half a tenth may go either way, since it is no exact number to begin with.
        if (Math.abs(((Math.abs(value) / 50) % 2) - 1) > 1e-9)
          expect(showShort(value)).toBe(short.format(value));
      },
    ),
    { examples: [[999_999_999], [-999_949_999]] },
  );
});

test('costs have as many digits as tell something', () => {
  const dollars = (digits: number) =>
    new Intl.NumberFormat('en-US', {
      style: 'currency',
      currency: 'USD',
      minimumFractionDigits: 2,
      maximumFractionDigits: digits,
    });
  expect([0, 1, 4_200, 50_000, 12_300_000, 1_234_567_890_000].map(showCost)).toEqual([
    '$0',
    '$0.000001',
    '$0.0042',
    '$0.05',
    '$12.30',
    '$1,234,567.89',
  ]);
  fc.assert(
    fc.property(
      amount.filter((value) => value !== 0),
      (microusd) => {
        const value = microusd / 1_000_000;
        const digits = Math.abs(value) >= 1 ? 2 : Math.abs(value) >= 0.01 ? 4 : 6;
        const half = Math.abs((Math.abs(microusd) / 10 ** (6 - digits)) % 1);
        if (half !== 0.5) expect(showCost(microusd)).toBe(dollars(digits).format(value));
      },
    ),
  );
});

test('times are those of the clock in the zone that was chosen', () => {
  const [date, time] = [
    { day: 'numeric', month: 'short', year: 'numeric' },
    { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' },
  ] as const;
  const moment = fc.date({ min: new Date('1971-01-01'), max: new Date('2100-01-01'), noInvalidDate: true });
  const before = process.env['TZ'];
  try {
    for (const zone of ['Europe/Berlin', 'America/St_Johns', 'Asia/Kolkata', 'UTC']) {
      process.env['TZ'] = zone;
      fc.assert(
        fc.property(moment, (at) => {
          for (const [chosen, timeZone] of [
            ['local', zone],
            ['utc', 'UTC'],
          ] as const) {
            const shown = [
              new Intl.DateTimeFormat('en-GB', { ...date, timeZone }).format(at),
              new Intl.DateTimeFormat('en-GB', { ...time, timeZone }).format(at),
            ];
            expect([showTime(at, chosen, 'date'), showTime(at, chosen, 'time')]).toEqual(shown);
          }
        }),
        { numRuns: 50, examples: [[new Date('2026-03-29T01:00:00Z')], [new Date('2026-10-25T00:59:59Z')]] },
      );
    }
    process.env['TZ'] = 'America/St_Johns';
    const at = '2026-11-22T04:05:06.789Z';
    expect(
      (['time', 'minute', 'day', 'date', 'full'] as const).map((form) => showTime(at, 'local', form)),
    ).toEqual(['00:35:06', '00:35', '22 Nov, 00:35', '22 Nov 2026', '22 Nov 2026, 00:35:06 UTC-3:30']);
    expect(showTime(at, 'utc')).toBe('22 Nov 2026, 04:05:06 UTC');
  } finally {
    if (before === undefined) delete process.env['TZ'];
    else process.env['TZ'] = before;
  }
});
