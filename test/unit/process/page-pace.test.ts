import { describe, expect, test } from 'vitest';
import { PAGE_EVERY_MS, PAGES_AT_ONCE, PagePace } from '../../../worker/page-pace.ts';

/** The times at which pages begin, when there are always events to project and a page takes 10 ms. */
function startsOf(pace: PagePace, fromMs: number, count: number): number[] {
  const starts: number[] = [];
  let nowMs = fromMs;
  while (starts.length < count) {
    starts.push(nowMs);
    nowMs += 10 + pace.restAfter(nowMs, nowMs + 10);
  }
  return starts;
}

describe('the projector', () => {
  test('projects two pages a second of a log in steady use, whatever its rate', () => {
    const starts = startsOf(new PagePace(), 0, 100).slice(2 * PAGES_AT_ONCE);
    const distances = starts.slice(1).map((start, index) => start - (starts[index] ?? 0));
    expect(new Set(distances)).toEqual(new Set([PAGE_EVERY_MS]));
  });

  test('projects the first events after a pause at once', () => {
    const pace = new PagePace();
    const busyUntilMs = startsOf(pace, 0, 100).at(-1) ?? 0;
    const starts = startsOf(pace, busyUntilMs + PAGES_AT_ONCE * PAGE_EVERY_MS, PAGES_AT_ONCE);
    expect((starts.at(-1) ?? 0) - (starts[0] ?? 0)).toBe((PAGES_AT_ONCE - 1) * 40);
  });
});
