import type { LimitRow } from '#server/contract/limits.ts';

/** Advances limit windows by the clock. Pure. */

const MINUTE_MS = 60_000;
const LENGTHS_MS = {
  minute: MINUTE_MS,
  hour: 60 * MINUTE_MS,
  day: 1_440 * MINUTE_MS,
  week: 7 * 1_440 * MINUTE_MS,
} as const;

/** The end of a window that starts at `fromMs`, or null. Months are UTC calendar months. */
export function windowEndMs(window: LimitRow['window'], fromMs: number): number | null {
  if (window === 'none' || window === 'lifetime') return null;
  if (window !== 'month') return fromMs + LENGTHS_MS[window];
  const from = new Date(fromMs);
  return Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + 1, 1);
}

/** The row at the given time: a past window is replaced by the current one with no usage. */
export function atTime(row: LimitRow, nowMs: number): LimitRow {
  if (
    row.resets_at === null ||
    Date.parse(row.resets_at) > nowMs ||
    row.window === 'none' ||
    row.window === 'lifetime'
  )
    return row;
  let fromMs = Date.parse(row.resets_at);
  let endMs = windowEndMs(row.window, fromMs);
  if (row.window !== 'month' && endMs !== null) {
    fromMs += Math.floor((nowMs - fromMs) / (endMs - fromMs)) * (endMs - fromMs);
    endMs = windowEndMs(row.window, fromMs);
  }
  return {
    ...row,
    used: 0,
    reserved: 0,
    remaining: row.limit,
    overdraft: 0,
    window_started_at: new Date(fromMs).toISOString(),
    resets_at: endMs === null ? null : new Date(endMs).toISOString(),
  };
}

/** The elapsed share of a window required for a forecast. */
const PACE_SHARE_MIN = 0.01;

/** When the limit will be exhausted at the current pace, or null if not before the reset. */
export function exhaustedAtMs(
  { window_started_at, resets_at, used, reserved: held, remaining: free }: LimitRow,
  nowMs: number,
): number | null {
  if (window_started_at === null || resets_at === null || free <= 0) return null;
  const [fromMs, endMs] = [Date.parse(window_started_at), Date.parse(resets_at)];
  const elapsedMs = nowMs - fromMs;
  if (elapsedMs < (endMs - fromMs) * PACE_SHARE_MIN || used + held <= 0) return null;
  const atMs = nowMs + (free * elapsedMs) / (used + held);
  return atMs < endMs ? atMs : null;
}
