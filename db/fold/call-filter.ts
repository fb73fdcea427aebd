import type { RelayedRoute } from '#db/limits/limits.ts';
import type { Outcome } from '#db/projections/outcomes.ts';

/**
 * The one filter of calls: of lists, exports, usage reports, the live feed, statements and the dashboard. SQL
 * conditions for rows of `projection.request` are in server/read/request-filter.ts; a test holds the two
 * together. Pure, and shared with the dashboard.
 */

/** HTTP statuses by their first digit. */
export const STATUS_CLASSES = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const;
export type StatusClass = (typeof STATUS_CLASSES)[number];

/** A filter of calls; an absent field matches all. */
export type CallFilter = {
  account?: string | undefined;
  key?: string | undefined;
  model?: string | undefined;
  route?: RelayedRoute | undefined;
  /** The upstream that the reply came from, or that was tried last. */
  upstream?: string | undefined;
  /** Pseudonyms, as in the log. */
  end_user?: string | undefined;
  session?: string | undefined;
  /** One of the call's tags. */
  tag?: string | undefined;
  outcome?: Outcome | 'running' | undefined;
  /** The HTTP status sent to the client, or its class. */
  status?: number | StatusClass | undefined;
  /** The error code of a rejection. */
  error_code?: string | undefined;
};

/** What the filter reads of a call. Null: not known yet, or not applicable. */
export type FilteredCall = {
  account: string;
  key: string;
  model: string | null;
  route: RelayedRoute | null;
  upstream: string | null;
  end_user: string | null;
  session: string | null;
  tags: readonly string[];
  outcome: Outcome | 'running';
  status: number | null;
  error_code: string | null;
};

/** Fields that are compared for equality. */
const EQUAL = [
  'account',
  'key',
  'model',
  'route',
  'upstream',
  'end_user',
  'session',
  'outcome',
  'error_code',
] as const satisfies readonly (keyof CallFilter & keyof FilteredCall)[];

/** All fields of the filter. */
export const FILTER_FIELDS = [...EQUAL, 'tag', 'status'] as const;

/** Whether a call matches a filter. */
export function matchesCall(filter: CallFilter, call: FilteredCall): boolean {
  const { tag, status } = filter;
  return (
    EQUAL.every((field) => filter[field] === undefined || filter[field] === call[field]) &&
    (tag === undefined || call.tags.includes(tag)) &&
    (status === undefined || hasStatus(status, call.status))
  );
}

function hasStatus(wanted: number | StatusClass, status: number | null): boolean {
  if (typeof wanted === 'number') return wanted === status;
  return status !== null && Math.floor(status / 100) === Number(wanted[0]);
}

/** The bounds of a class of statuses, both inclusive. */
export function statusRange(status: StatusClass): [first: number, last: number] {
  const first = Number(status[0]) * 100;
  return [first, first + 99];
}
