import * as fc from 'fast-check';
import { beforeEach, expect, test } from 'vitest';
import {
  setLocale,
  showCost,
  showCount,
  showDuration,
  showPercent,
  showShort,
  showTime,
} from '../../../web/lib/format/show.ts';

/** Numbers, money and times as the reader's locale writes them. */

beforeEach(() => setLocale('en-GB'));

test('large numbers are shortened to the nearest tenth of their unit, small ones are exact', () => {
  setLocale('en-US');
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
  setLocale('de-DE');
  expect(showShort(1_250_000)).toBe('1,3\u00a0Mio.');
});

test('costs have as many digits as are meaningful, and never lose a micro-dollar below a cent', () => {
  expect([0, 1, 200, 4_200_000, 50_000_000, 12_300_000_000, 1_234_567_890_000_000].map(showCost)).toEqual([
    '$0',
    '$0.000000001',
    '$0.0000002',
    '$0.0042',
    '$0.05',
    '$12.30',
    '$1,234,567.89',
  ]);
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 9_999 }), (microusd) => {
      expect(Math.round(Number(showCost(microusd * 1_000).slice(1)) * 1_000_000)).toBe(microusd);
    }),
  );
});

test('sums beyond the integers of a number are shown to the cent', () => {
  expect(showCost('90071992547409930000000')).toBe('$90,071,992,547,409.93');
});

test('digits and separators follow the locale', () => {
  const shown = (locale: string): string[] => {
    setLocale(locale);
    return [showCount(1_234_567.5), showCost(1_234_500_000_000), showDuration(1_250), showPercent(0.125, 1)];
  };
  expect(shown('en-US')).toEqual(['1,234,567.5', '$1,234.50', '1.3 s', '12.5%']);
  expect(shown('de-DE')).toEqual(['1.234.567,5', '1.234,50\u00a0$', '1,3 s', '12,5\u00a0%']);
});

test('times are shown in the selected zone, in the format of the locale', () => {
  const [date, time] = [
    { day: 'numeric', month: 'short', year: 'numeric' },
    { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' },
  ] as const;
  const moment = fc.date({ min: new Date('1971-01-01'), max: new Date('2100-01-01'), noInvalidDate: true });
  const before = process.env['TZ'];
  try {
    for (const zone of ['Europe/Berlin', 'America/St_Johns', 'Asia/Kolkata', 'UTC']) {
      process.env['TZ'] = zone;
      setLocale('en-GB');
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
    setLocale('en-GB');
    const at = '2026-11-22T04:05:06.789Z';
    expect(
      (['time', 'minute', 'day', 'date', 'full'] as const).map((form) => showTime(at, 'local', form)),
    ).toEqual(['00:35:06', '00:35', '22 Nov, 00:35', '22 Nov 2026', '22 Nov 2026, 00:35:06 GMT-3:30']);
    expect(showTime(at, 'utc')).toBe('22 Nov 2026, 04:05:06 UTC');
  } finally {
    if (before === undefined) delete process.env['TZ'];
    else process.env['TZ'] = before;
  }
});
