import { FILTER_FIELDS, STATUS_CLASSES } from '#db/fold/call-filter.ts';
import type { RelayedRoute } from '#db/limits/limits.ts';
import type { RequestFilter } from '#server/contract/requests.ts';
import { OUTCOME_WORDS } from '../format/outcomes.ts';
import { textsIn } from './params.ts';

/** URL search parameters of the request filter, shared by pages, live feed and CSV. Pure. */

export const RANGES = {
  '15m': 15 * 60_000,
  '1h': 3_600_000,
  '24h': 86_400_000,
  '7d': 7 * 86_400_000,
  '30d': 30 * 86_400_000,
} as const;
export type Range = keyof typeof RANGES;

/** The relayed routes. A list of the page's own: that of the server would bring its schemas with it. */
export const ROUTES = [
  '/v1/chat/completions',
  '/v1/completions',
  '/v1/embeddings',
  '/v1/responses',
  '/v1/messages',
  '/v1/moderations',
  '/v1/rerank',
  '/v1/images/generations',
  '/v1/images/edits',
  '/v1/images/variations',
  '/v1/audio/transcriptions',
  '/v1/audio/translations',
  '/v1/audio/speech',
] as const satisfies readonly RelayedRoute[];

export type FilterSearch = RequestFilter & {
  /** A range up to now. Defaults to the page's range. */
  range?: Range;
  /** ISO 8601. Override the range. */
  from?: string;
  to?: string;
};

/** Parses search parameters and drops invalid ones. */
export function readFilterSearch(search: Record<string, unknown>): FilterSearch {
  const found: FilterSearch = textsIn(search, ['model'], 256);
  const { account, key, route, upstream, outcome, status, error_code, range, from, to } = search;
  if (isId(account)) found.account = String(account);
  if (isId(key)) found.key = String(key);
  if (typeof outcome === 'string' && Object.hasOwn(OUTCOME_WORDS, outcome))
    found.outcome = outcome as NonNullable<FilterSearch['outcome']>;
  const knownRoute = ROUTES.find((each) => each === route);
  if (knownRoute !== undefined) found.route = knownRoute;
  if (matchesText(upstream, /^[a-z0-9][a-z0-9._-]{0,63}$/)) found.upstream = String(upstream);
  for (const field of ['end_user', 'session', 'tag'] as const)
    if (matchesText(search[field], /^[0-9A-Za-z]{16}$/)) found[field] = String(search[field]);
  if (matchesText(error_code, /^[a-z_]{1,64}$/)) found.error_code = String(error_code);
  const knownClass = STATUS_CLASSES.find((each) => each === status);
  if (knownClass !== undefined) found.status = knownClass;
  else if (Number.isInteger(Number(status)) && Number(status) >= 100 && Number(status) <= 599)
    found.status = Number(status);
  if (typeof range === 'string' && Object.hasOwn(RANGES, range)) found.range = range as Range;
  if (isTime(from)) found.from = from;
  // An end without a start is invalid.
  if (isTime(to) && found.from !== undefined) found.to = to;
  return found;
}

/** The part that the server's filter accepts. */
export function requestFilterOf(search: FilterSearch): RequestFilter {
  const fields = FILTER_FIELDS.flatMap((field) =>
    search[field] === undefined ? [] : [[field, search[field]] as const],
  );
  return Object.fromEntries(fields);
}

/** Resolves the time range. `toMs` is null for live ranges. */
export function timeOf(
  { range, from, to }: FilterSearch,
  fallback: Range,
  nowMs: number,
): { fromMs: number; toMs: number | null } {
  if (from !== undefined) return { fromMs: Date.parse(from), toMs: to === undefined ? null : Date.parse(to) };
  return { fromMs: nowMs - RANGES[range ?? fallback], toMs: null };
}

// The router parses an id of digits as a number.
const matchesText = (value: unknown, form: RegExp): boolean =>
  (typeof value === 'string' || typeof value === 'number') && form.test(String(value));
const isId = (value: unknown): boolean => matchesText(value, /^[0-9A-Za-z]{8}$/);
const isTime = (value: unknown): value is string =>
  typeof value === 'string' && /^\d{4}-\d\d-\d\dT/.test(value) && !Number.isNaN(Date.parse(value));
