import type { LimitRow } from '#server/dashboard/contract-keys.ts';
import type { FrameOf } from '#server/dashboard/frames.ts';

/** Limits with their windows, brought on by the live feed and by the clock. Pure. */

const MINUTE_MS = 60_000;
const LENGTHS_MS = { minute: MINUTE_MS, hour: 60 * MINUTE_MS, day: 1_440 * MINUTE_MS, week: 7 * 1_440 * MINUTE_MS } as const;

/** When a window ends that begins then; null: it has no end. Months are those of the UTC calendar. */
export function windowEndMs(window: LimitRow['window'], fromMs: number): number | null {
  if (window === 'none') return null;
  if (window !== 'month') return fromMs + LENGTHS_MS[window];
  const from = new Date(fromMs);
  return Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + 1, 1);
}

/** The row as a window of a quota tells it; the same row where that is another limit, or an older window. */
function withQuota(row: LimitRow, { subject, meter, window, window_start, cap, used, held }: FrameOf<'quota'>): LimitRow {
  const fromMs = window_start * MINUTE_MS;
  if (row.subject !== subject || row.meter !== meter || row.window !== window) return row;
  if (row.window_started_at !== null && fromMs < Date.parse(row.window_started_at)) return row;
  const endMs = windowEndMs(window, fromMs);
  return {
    ...row,
    limit: cap,
    used,
    held,
    free: Math.max(0, cap - used - held),
    window_started_at: new Date(fromMs).toISOString(),
    resets_at: endMs === null ? null : new Date(endMs).toISOString(),
  };
}

/** @returns the same list where none of the frames concerns it. */
export function withQuotas(rows: LimitRow[], frames: readonly FrameOf<'quota'>[]): LimitRow[] {
  const next = rows.map((row) => frames.reduce(withQuota, row));
  return next.every((row, index) => row === rows[index]) ? rows : next;
}

/** The row at this moment: a window that is over begins anew with nothing used. */
export function atTime(row: LimitRow, nowMs: number): LimitRow {
  if (row.resets_at === null || Date.parse(row.resets_at) > nowMs || row.window === 'none') return row;
  let fromMs = Date.parse(row.resets_at);
  let endMs = windowEndMs(row.window, fromMs);
  if (row.window !== 'month' && endMs !== null) {
    fromMs += Math.floor((nowMs - fromMs) / (endMs - fromMs)) * (endMs - fromMs);
    endMs = windowEndMs(row.window, fromMs);
  }
  return { ...row, used: 0, held: 0, free: row.limit, window_started_at: new Date(fromMs).toISOString(), resets_at: endMs === null ? null : new Date(endMs).toISOString() };
}

/** So long a window has to have run before its pace says something. */
const PACE_SHARE_MIN = 0.01;

/** When the limit is used up if the window goes on as it has so far; null: not before it begins anew. */
export function usedUpAtMs({ window_started_at, resets_at, used, held, free }: LimitRow, nowMs: number): number | null {
  if (window_started_at === null || resets_at === null || free <= 0) return null;
  const [fromMs, endMs] = [Date.parse(window_started_at), Date.parse(resets_at)];
  const elapsedMs = nowMs - fromMs;
  if (elapsedMs < (endMs - fromMs) * PACE_SHARE_MIN || used + held <= 0) return null;
  const atMs = nowMs + (free * elapsedMs) / (used + held);
  return atMs < endMs ? atMs : null;
}
