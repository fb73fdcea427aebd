import { expect, test } from 'vitest';
import { monthText, newestDueMonth, pauseAfter } from '#db/statement/email-schedule.ts';

const due = (now: string, day: number): string => monthText(newestDueMonth(new Date(now), day));

test('a month is due on its day of the next month, and stays so until the next one', () => {
  expect(due('2027-02-01T00:09:59Z', 1)).toBe('2026-12');
  expect(due('2027-02-01T00:10:00Z', 1)).toBe('2027-01');
  expect(due('2027-02-28T23:59:59Z', 1)).toBe('2027-01');
  expect(due('2027-02-04T12:00:00Z', 5)).toBe('2026-12');
  expect(due('2027-02-05T12:00:00Z', 5)).toBe('2027-01');
  expect(due('2027-03-27T12:00:00Z', 28)).toBe('2027-01');
  expect(newestDueMonth(new Date('2027-01-15T00:00:00Z'), 1)).toEqual({
    from: new Date('2026-12-01T00:00:00Z'),
    to: new Date('2027-01-01T00:00:00Z'),
  });
});

test('a rejected recipient is final; a failed sign-in or connection is retried for a day', () => {
  expect(pauseAfter(1, { status: 550 })).toBeNull();
  expect(pauseAfter(1, { status: 535 })).toBe(60);
  expect(pauseAfter(2, { status: 452 })).toBe(300);
  let pauses = 0;
  let attempts = 1;
  for (let pause = pauseAfter(attempts, { fault: 'ECONNREFUSED' }); pause !== null; attempts++) {
    pauses += pause;
    pause = pauseAfter(attempts + 1, { fault: 'ECONNREFUSED' });
  }
  expect([attempts, Math.round(pauses / 3_600)]).toEqual([9, 24]);
});
