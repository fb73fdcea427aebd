import type { WindowKind } from '#db/limits/limits.ts';

/**
 * Windows of the UTC calendar in whole minutes since 1970, as the log stores them, and lifetimes, which are
 * one window. Weeks begin on Monday. Pure; `daybook.window_start` in SQL is its twin, and a test holds them
 * together.
 */
const HOUR = 60;
const DAY = 24 * HOUR;
const WEEK = 7 * DAY;
/** 1970-01-01 was a Thursday; the Monday before it lies three days back. */
const MONDAY = -3 * DAY;

/** The minute that a moment falls into. @param ms milliseconds since 1970. */
export function minuteOf(ms: number): number {
  return Math.floor(ms / 60_000);
}

/** The first minute of the window that a minute lies in; 0 for `none` and `lifetime`, which never end. */
export function windowStart(kind: WindowKind, minute: number): number {
  switch (kind) {
    case 'none':
    case 'lifetime':
      return 0;
    case 'minute':
      return minute;
    case 'hour':
      return minute - (minute % HOUR);
    case 'day':
      return minute - (minute % DAY);
    case 'week':
      return minute - ((minute - MONDAY) % WEEK);
    case 'month': {
      const date = new Date(minute * 60_000);
      return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1) / 60_000;
    }
  }
}

/** The first minute after the window that begins at `start`; Infinity where it never ends. */
export function windowEnd(kind: WindowKind, start: number): number {
  switch (kind) {
    case 'none':
    case 'lifetime':
      return Infinity;
    case 'minute':
      return start + 1;
    case 'hour':
      return start + HOUR;
    case 'day':
      return start + DAY;
    case 'week':
      return start + WEEK;
    case 'month': {
      const date = new Date(start * 60_000);
      return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1) / 60_000;
    }
  }
}
