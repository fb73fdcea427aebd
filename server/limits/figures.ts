import type { WindowKind } from '#db/limits/limits.ts';
import { parseSubject, type SubjectKind } from '#db/limits/subjects.ts';
import type { Meter } from '#db/limits/meters.ts';
import type { Counter } from '#server/limits/counter.ts';

/** One limit in the API and on pages. `held` are the units reserved by running calls. */
export type Figures = {
  /** Whose usage the limit counts. */
  scope: SubjectKind | 'parent_account';
  meter: Meter;
  /** `now` for concurrent requests. */
  window: Exclude<WindowKind, 'none'> | 'now';
  limit: number;
  used: number;
  reserved: number;
  remaining: number;
  /** Units used beyond the limit. */
  overdraft: number;
  /** ISO 8601; null where the window never ends. */
  resets_at: string | null;
};

/**
 * The figures of a limit as of the last lease response. Pure.
 * @param account the account whose calls it limits; absent: the one that it belongs to.
 */
export function figuresOf(counter: Counter, account?: string): Figures {
  const { kind, account: owner } = parseSubject(counter.subject);
  const { used, leased } = counter.reported;
  // Near the limit nothing is leased that is not reserved, and `leased` includes the latest grants.
  const held = counter.strict ? leased : counter.reported.held;
  return {
    scope: kind === 'account' && account !== undefined && owner !== account ? 'parent_account' : kind,
    meter: counter.meter,
    window: counter.window === 'none' ? 'now' : counter.window,
    limit: counter.cap,
    used,
    reserved: held,
    remaining: Math.max(0, counter.cap - used - held),
    overdraft: Math.max(0, used - counter.cap),
    resets_at: counter.end === Infinity ? null : new Date(counter.end * 60_000).toISOString(),
  };
}

/** Milliseconds until the window ends; null where it never does. */
export function resetMs({ end }: Counter, nowMs: number): number | null {
  return end === Infinity ? null : Math.max(0, end * 60_000 - nowMs);
}

/** The names are made once, since each call has these headers. */
const RATE_HEADERS = (['requests', 'tokens'] as const).map((meter) => ({
  meter,
  limit: `x-ratelimit-limit-${meter}`,
  remaining: `x-ratelimit-remaining-${meter}`,
  reset: `x-ratelimit-reset-${meter}`,
}));

/**
 * The `x-ratelimit-*` headers, as pairs of name and value: for each rate the limit with the least
 * remaining. Free units of other instances are not counted, so the numbers are never too high.
 */
export function rateHeaders(counters: readonly Counter[], nowMs: number): string[] {
  const headers: string[] = [];
  for (const { meter, limit, remaining, reset } of RATE_HEADERS) {
    let least: Counter | null = null;
    for (const counter of counters) {
      if (counter.window !== 'minute' || counter.meter !== meter) continue;
      if (least === null || counter.remaining < least.remaining) least = counter;
    }
    if (least === null) continue;
    const resetS = Math.ceil((resetMs(least, nowMs) ?? 0) / 1_000);
    headers.push(limit, String(least.cap), remaining, String(least.remaining), reset, `${resetS}s`);
  }
  return headers;
}
