import { END_REASONS, USAGE_SOURCES } from '#db/events/endings.ts';
import type { EventOf, Placed } from '#db/events/events.ts';
import { bucketOf, BUCKETS } from '#db/projections/buckets.ts';
import { ROUTE_CODES } from '#db/limits/limits.ts';
import { OUTCOME_OF, OUTCOMES } from '#db/projections/outcomes.ts';

/**
 * What the tables of calls and of usage are to hold, event by event and in plain objects: the judge
 * of the statements that do the same by sets. Times are in milliseconds, as far as dates know.
 */

export type Row = Record<string, unknown>;
/** Rows by the text of their primary key. */
export type Rows = Map<string, Row>;

type Ending = EventOf<'request.settled'> | EventOf<'request.abandoned'>;
const isEnding = (event: Placed['event']): event is Ending =>
  event.type === 'request.settled' || event.type === 'request.abandoned';
const costOf = (event: Ending): number | null =>
  (event.type === 'request.settled' ? event.cost_nanousd : event.hold_cost_nanousd) ?? null;

export function foldRequests(log: readonly Placed[]): Record<'request' | 'running_request', Rows> {
  const request: Rows = new Map();
  const running: Rows = new Map();
  for (const { event, position, at, instance } of log) {
    if (event.type === 'request.accepted') {
      const { account, key, model, sse, body_bytes, hold_tokens } = event;
      request.set(event.request, {
        ...EMPTY,
        ...whoseColumns(event),
        ...{
          request: event.request,
          position,
          accepted_at: at,
          instance,
          account,
          key,
          model,
          sse,
          body_bytes,
          hold_tokens,
        },
        hold_cost_nanousd: event.hold_cost_nanousd ?? null,
        terms_position: event.terms_position ?? null,
        admitted_minute: event.admitted_minute ?? null,
        retry_count: event.retry_count ?? null,
        observed: event.observed?.length ?? null,
      });
      running.set(event.request, { request: event.request, position, account });
    } else if (event.type === 'request.extended') {
      const row = request.get(event.request) as Row;
      Object.assign(row, {
        hold_tokens: event.hold_tokens,
        hold_cost_nanousd: event.hold_cost_nanousd ?? null,
      });
    } else if (event.type === 'request.rejected') {
      const { account, key, error_code, status, rejected_count } = event;
      request.set(event.request, {
        ...EMPTY,
        ...whoseColumns(event),
        model: event.model ?? null,
        ...{
          request: event.request,
          position,
          end_position: position,
          accepted_at: at,
          ended_at: at,
          instance,
          account,
          key,
          error_code,
          status,
          rejected_count,
        },
      });
    } else if (isEnding(event)) {
      running.delete(event.request);
      Object.assign(request.get(event.request) as Row, {
        end_position: position,
        ended_at: at,
        cost_nanousd: costOf(event),
        end_reason: END_REASONS[event.end_reason],
        usage_source: USAGE_SOURCES[event.usage_source],
        ...(event.type === 'request.settled' ? settledColumns(event) : {}),
      });
    }
  }
  return { request, running_request: running };
}

/** The route and whom a call is for, of its first event. */
function whoseColumns(event: EventOf<'request.accepted' | 'request.rejected'>): Row {
  return {
    route: ROUTE_CODES[event.route],
    end_user: event.end_user ?? null,
    session: event.session ?? null,
    tags: event.tags?.join(' ') ?? null,
  };
}

const EMPTY: Row = Object.fromEntries(
  `request position end_position accepted_at ended_at hold_tokens hold_cost_nanousd
   cost_nanousd upstream_cost_nanousd terms_position instance admitted_minute body_bytes
   input_tokens cache_read_tokens cache_write_tokens output_tokens reasoning_tokens
   first_byte_ms duration_ms price_version rejected_count status end_reason usage_source
   attempt_count retry_count observed route sse account key model upstream error_code end_user session
   tags`
    .split(/\s+/)
    .map((name) => [name, null]),
);

function settledColumns(event: EventOf<'request.settled'>): Row {
  const {
    status,
    input_tokens,
    cache_read_tokens,
    output_tokens,
    reasoning_tokens,
    attempt_count,
    duration_ms,
  } = event;
  return {
    ...{
      status,
      input_tokens,
      cache_read_tokens,
      output_tokens,
      reasoning_tokens,
      attempt_count,
      duration_ms,
    },
    first_byte_ms: event.first_byte_ms ?? null,
    cache_write_tokens: event.cache_write_tokens ?? null,
    upstream_cost_nanousd: event.upstream_cost_nanousd ?? null,
    upstream: event.upstream ?? null,
    price_version: event.price_version ?? null,
  };
}

type Figures = Record<string, number> & { duration_counts: number[]; first_byte_counts: number[] };
const SUMS = [
  ...OUTCOMES,
  'unpriced',
  'estimated',
  'input_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'output_tokens',
  'reasoning_tokens',
  'abandoned_tokens',
  'cost_nanousd',
  'upstream_cost_nanousd',
  'estimated_cost_nanousd',
  'corrections',
  'correction_cost_nanousd',
];
const noFigures = (): Figures =>
  Object.assign(Object.fromEntries(SUMS.map((name) => [name, 0])), {
    duration_counts: Array.from({ length: BUCKETS }, () => 0),
    first_byte_counts: Array.from({ length: BUCKETS }, () => 0),
  });

const USAGE_TABLES = [
  'usage_minute',
  'usage_minute_total',
  'usage_hour_key',
  'usage_hour',
  'usage_hour_total',
  'usage_day',
  'usage_day_account',
  'key_use',
] as const;

export function foldUsage(log: readonly Placed[]): Record<(typeof USAGE_TABLES)[number], Rows> {
  const tables = Object.fromEntries(USAGE_TABLES.map((name) => [name, new Map()])) as unknown as ReturnType<
    typeof foldUsage
  >;
  const figuresOf = (rows: Rows, identity: Row): Figures => {
    const key = JSON.stringify(Object.values(identity));
    const row = rows.get(key) ?? { ...identity, ...noFigures() };
    rows.set(key, row);
    return row as Figures;
  };
  for (const { event, at } of log) {
    if (event.type === 'request.accepted') {
      const use = useOf(tables.key_use, event);
      Object.assign(use, { last_used_at: at, requests: (use['requests'] as number) + 1 });
    }
    const isCorrection = event.type === 'usage.adjusted';
    if (!isEnding(event) && event.type !== 'request.rejected' && !isCorrection) continue;
    const { account, key } = event;
    const model = event.model ?? '';
    const from = (ms: number): Date => new Date(at.getTime() - (at.getTime() % ms));
    for (const figures of [
      figuresOf(tables.usage_minute, { minute: from(60_000), account, key, model }),
      figuresOf(tables.usage_hour_key, { hour: from(3_600_000), account, key, model }),
      figuresOf(tables.usage_day, { day: from(86_400_000), account, key, model }),
      figuresOf(tables.usage_hour, { hour: from(3_600_000), account }),
      figuresOf(tables.usage_day_account, { day: from(86_400_000), account }),
      figuresOf(tables.usage_minute_total, { minute: from(60_000) }),
      figuresOf(tables.usage_hour_total, { hour: from(3_600_000) }),
    ]) {
      count(figures, event);
    }
    const use = useOf(tables.key_use, event);
    if (event.type !== 'request.rejected')
      use['cost_nanousd'] =
        (use['cost_nanousd'] as number) + ((isEnding(event) ? costOf(event) : event.cost_nanousd) ?? 0);
  }
  return tables;
}

export const STATEMENT_KEY = ['account', 'day', 'key', 'model', 'kind', 'terms_position'] as const;

/** The rows of `statement_day`. */
export function foldStatements(log: readonly Placed[]): Rows {
  const rows: Rows = new Map();
  for (const { event, position, at } of log) {
    if (!isEnding(event) && event.type !== 'request.rejected') continue;
    const isRejected = event.type === 'request.rejected';
    const cost = isRejected ? null : costOf(event);
    const isAbandoned = event.type === 'request.abandoned';
    const identity: Record<(typeof STATEMENT_KEY)[number], unknown> = {
      account: event.account,
      day: new Date(at.getTime() - (at.getTime() % 86_400_000)),
      key: event.key,
      model: isRejected ? '' : event.model,
      kind: isRejected ? 3 : isAbandoned ? 1 : cost === null ? 2 : 0,
      terms_position: isRejected ? 0 : (event.terms_position ?? 0),
    };
    const name = JSON.stringify(STATEMENT_KEY.map((key) => identity[key]));
    const row = rows.get(name) ?? { ...identity, ...NO_SUMS, first_position: position };
    rows.set(name, row);
    row['last_position'] = position;
    const add = (column: string, amount: number): void => {
      row[column] = (row[column] as number) + amount;
    };
    add('requests', isRejected ? event.rejected_count : 1);
    if (isRejected) continue;
    add('cost_nanousd', cost ?? 0);
    const isEstimated = !['provider', 'none'].includes(event.usage_source);
    add('estimated', isEstimated ? 1 : 0);
    add('estimated_cost_nanousd', isEstimated ? (cost ?? 0) : 0);
    if (event.type === 'request.abandoned') add('abandoned_tokens', event.hold_tokens);
    else
      for (const part of ['input', 'cache_read', 'cache_write', 'output', 'reasoning'] as const)
        add(`${part}_tokens`, event[`${part}_tokens`] ?? 0);
  }
  return rows;
}

const NO_SUMS: Row = {
  ...{ requests: 0, estimated: 0, input_tokens: 0, cache_read_tokens: 0, cache_write_tokens: 0 },
  ...{ output_tokens: 0, reasoning_tokens: 0, abandoned_tokens: 0 },
  ...{ estimated_cost_nanousd: 0, cost_nanousd: 0 },
};

function useOf(rows: Rows, { key, account }: { key: string; account: string }): Row {
  const row = rows.get(key) ?? { key, account, last_used_at: null, requests: 0, cost_nanousd: 0 };
  rows.set(key, row);
  return row;
}

function count(figures: Figures, event: Ending | EventOf<'request.rejected' | 'usage.adjusted'>): void {
  const add = (name: string, amount: number): void => {
    figures[name] = (figures[name] as number) + amount;
  };
  if (event.type === 'request.rejected') return add('refused', event.rejected_count);
  if (event.type === 'usage.adjusted') {
    add('corrections', 1);
    add('correction_cost_nanousd', event.cost_nanousd ?? 0);
    add('cost_nanousd', event.cost_nanousd ?? 0);
    add('upstream_cost_nanousd', event.upstream_cost_nanousd ?? event.cost_nanousd ?? 0);
    add('abandoned_tokens', event.hold_tokens ?? 0);
    for (const name of ['input', 'cache_read', 'cache_write', 'output', 'reasoning'] as const)
      add(`${name}_tokens`, event[`${name}_tokens`] ?? 0);
    return;
  }
  add(OUTCOME_OF[event.end_reason], 1);
  const cost = costOf(event);
  if (cost === null) add('unpriced', 1);
  else add('cost_nanousd', cost);
  const upstreamCost = event.type === 'request.settled' ? event.upstream_cost_nanousd : undefined;
  add('upstream_cost_nanousd', upstreamCost ?? cost ?? 0);
  if (!['provider', 'none'].includes(event.usage_source)) {
    add('estimated', 1);
    add('estimated_cost_nanousd', cost ?? 0);
  }
  if (event.type === 'request.abandoned') return add('abandoned_tokens', event.hold_tokens);
  for (const name of ['input_tokens', 'cache_read_tokens', 'output_tokens', 'reasoning_tokens'] as const)
    add(name, event[name]);
  add('cache_write_tokens', event.cache_write_tokens ?? 0);
  const tally = (counts: number[], ms: number | undefined): void => {
    if (ms !== undefined) counts[bucketOf(ms)] = (counts[bucketOf(ms)] as number) + 1;
  };
  tally(figures.duration_counts, event.duration_ms);
  tally(figures.first_byte_counts, event.first_byte_ms);
}
