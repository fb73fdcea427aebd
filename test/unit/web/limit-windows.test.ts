import { expect, test } from 'vitest';
import type { LimitRow } from '#server/contract/limits.ts';
import { windowEnd, windowStart } from '#db/limits/windows.ts';
import { WINDOW_KINDS, type WindowKind } from '#db/limits/limits.ts';
import { atTime, exhaustedAtMs, windowEndMs } from '../../../web/lib/format/limit-windows.ts';

/** Limits between two refetches. */

const time = (text: string): number => Date.parse(`${text}Z`);
const row: LimitRow = {
  subject: 'account/Account1',
  key_name: null,
  meter: 'tokens',
  window: 'day',
  limit: 1_000,
  used: 400,
  reserved: 100,
  remaining: 500,
  window_started_at: '2026-05-04T00:00:00.000Z',
  resets_at: '2026-05-05T00:00:00.000Z',
  enforcement: 'soft',
  overdraft: 0,
  overdraft_max: null,
};

test('windows end when the relay’s windows end', () => {
  for (const kind of Object.keys(WINDOW_KINDS) as WindowKind[]) {
    for (const at of [
      '2026-01-31T23:59',
      '2026-02-28T12:00',
      '2028-02-29T00:00',
      '2026-12-31T23:00',
      '2026-03-29T01:30',
    ]) {
      const start = windowStart(kind, Math.floor(time(at) / 60_000));
      const end = windowEnd(kind, start);
      expect(windowEndMs(kind, start * 60_000)).toBe(end === Infinity ? null : end * 60_000);
    }
  }
});

test('a past window is replaced by the current one with no usage', () => {
  expect(atTime(row, time('2026-05-04T23:59:59'))).toBe(row);
  expect(atTime(row, time('2026-05-05T00:00'))).toMatchObject({
    used: 0,
    reserved: 0,
    remaining: 1_000,
    window_started_at: '2026-05-05T00:00:00.000Z',
    resets_at: '2026-05-06T00:00:00.000Z',
  });
  expect(atTime(row, time('2026-05-09T07:00'))).toMatchObject({
    used: 0,
    resets_at: '2026-05-10T00:00:00.000Z',
  });
});

test('the current pace forecasts when a limit is exhausted, if that is before the reset', () => {
  // Half was used within ten hours, so the other half lasts ten more.
  expect(exhaustedAtMs(row, time('2026-05-04T10:00'))).toBe(time('2026-05-04T20:00'));
  expect(exhaustedAtMs(row, time('2026-05-04T12:00'))).toBeNull();
  expect(exhaustedAtMs(row, time('2026-05-04T00:01'))).toBeNull();
  expect(
    exhaustedAtMs({ ...row, used: 1_000, reserved: 0, remaining: 0 }, time('2026-05-04T10:00')),
  ).toBeNull();
  expect(
    exhaustedAtMs({ ...row, used: 0, reserved: 0, remaining: 1_000 }, time('2026-05-04T10:00')),
  ).toBeNull();
});
