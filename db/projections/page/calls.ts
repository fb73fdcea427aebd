import { EVENT_CODES } from '#db/events/events.ts';
import { RequestOrderError } from '#db/fold/request.ts';
import { AT } from '#db/log/columns.ts';
import type { Cells } from '#db/log/line.ts';
import type { PageEvent } from '#db/projections/page/page.ts';

const ACCEPTED = EVENT_CODES['request.accepted'];
const SETTLED = EVENT_CODES['request.settled'];
const ABANDONED = EVENT_CODES['request.abandoned'];
const EXTENDED = EVENT_CODES['request.extended'];
const REJECTED = EVENT_CODES['request.rejected'];

/** The columns of `request` in the order of its definition, for rows that are texts. */
export const REQUEST_COLUMNS = [
  'request',
  'position',
  'end_position',
  'accepted_at',
  'ended_at',
  'hold_tokens',
  'hold_cost_nanousd',
  'cost_nanousd',
  'upstream_cost_nanousd',
  'terms_position',
  'instance',
  'admitted_minute',
  'body_bytes',
  'input_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'output_tokens',
  'reasoning_tokens',
  'first_byte_ms',
  'duration_ms',
  'price_version',
  'rejected_count',
  'status',
  'end_reason',
  'usage_source',
  'attempt_count',
  'retry_count',
  'observed',
  'route',
  'sse',
  'account',
  'key',
  'model',
  'upstream',
  'error_code',
  'end_user',
  'session',
  'tags',
] as const;

/** Of each column its value as text, see {@link REQUEST_COLUMNS}. */
export type RequestRow = Cells;

/** The events of a call that a page has: its acceptance, its last extension and its end. */
type Call = { accepted: PageEvent | null; hold: PageEvent | null; end: PageEvent | null };
type Begun = Call & { accepted: PageEvent };

export type PageCalls = {
  /** Calls that are accepted here. */
  begun: Begun[];
  /** Calls of earlier pages that end here or are extended. */
  carried: Call[];
  rejected: PageEvent[];
};

/**
 * The calls that a page has events of. Most begin and end within a page that is not very short. Pure.
 * @throws {RequestOrderError} where events of a call are not in an order that is possible.
 */
export function matchCalls(events: readonly PageEvent[]): PageCalls {
  const calls = new Map<string | null | undefined, Call>();
  const matched: PageCalls = { begun: [], carried: [], rejected: [] };
  for (const event of events) {
    const request = event.cells[AT.request];
    switch (event.type) {
      case ACCEPTED: {
        if (calls.has(request)) throw new RequestOrderError('a call is accepted after another of its events');
        const call = { accepted: event, hold: null, end: null };
        calls.set(request, call);
        matched.begun.push(call);
        break;
      }
      case EXTENDED:
      case SETTLED:
      case ABANDONED: {
        let call = calls.get(request);
        if (call === undefined) {
          calls.set(request, (call = { accepted: null, hold: null, end: null }));
          matched.carried.push(call);
        }
        if (call.end !== null) throw new RequestOrderError('a call has an event after its end');
        if (event.type === EXTENDED) call.hold = event;
        else call.end = event;
        break;
      }
      case REJECTED:
        matched.rejected.push(event);
        break;
    }
  }
  return matched;
}

/** The rows of requests that a page begins, those of calls that end in it in their final state. */
export function* begunRows({ begun, rejected }: PageCalls): Generator<RequestRow> {
  for (const { accepted, hold, end } of begun) yield rowOf(accepted, accepted.cells, hold, end);
  for (const event of rejected) yield rejectedRow(event);
}

/**
 * The row of a call of an earlier page with the columns of its events in this one. In place of the acceptance
 * stands one of them.
 */
export function carriedRow({ hold, end }: Call): RequestRow {
  return rowOf((hold ?? end) as PageEvent, NO_CELLS, hold, end);
}

const NO_CELLS: Cells = [];
const cell = (cells: Cells, at: number): string | null => cells[at] ?? null;

function rowOf(first: PageEvent, accepted: Cells, hold: PageEvent | null, end: PageEvent | null): RequestRow {
  const ended = end?.cells ?? NO_CELLS;
  const held = hold?.cells ?? accepted;
  return [
    cell(first.cells, AT.request),
    String(first.position),
    end === null ? null : String(end.position),
    first.at,
    end === null ? null : end.at,
    cell(held, AT.hold_tokens),
    cell(held, AT.hold_cost_nanousd),
    cell(ended, end?.type === ABANDONED ? AT.hold_cost_nanousd : AT.cost_nanousd),
    cell(ended, AT.upstream_cost_nanousd),
    cell(accepted, AT.terms_position),
    String(first.instance),
    cell(accepted, AT.admitted_minute),
    cell(accepted, AT.body_bytes),
    cell(ended, AT.input_tokens),
    cell(ended, AT.cache_read_tokens),
    cell(ended, AT.cache_write_tokens),
    cell(ended, AT.output_tokens),
    cell(ended, AT.reasoning_tokens),
    cell(ended, AT.first_byte_ms),
    cell(ended, AT.duration_ms),
    cell(ended, AT.price_version),
    null,
    cell(ended, AT.status),
    cell(ended, AT.end_reason),
    cell(ended, AT.usage_source),
    cell(ended, AT.attempt_count),
    cell(accepted, AT.retry_count),
    observedOf(accepted),
    cell(accepted, AT.route),
    cell(accepted, AT.sse),
    cell(first.cells, AT.account),
    cell(first.cells, AT.key),
    cell(accepted, AT.model),
    cell(ended, AT.upstream),
    null,
    cell(accepted, AT.end_user),
    cell(accepted, AT.session),
    cell(accepted, AT.tags),
  ];
}

/** How many observed limits would have rejected a call. */
function observedOf(accepted: Cells): string | null {
  const body = cell(accepted, AT.body);
  if (body === null) return null;
  const { observed } = JSON.parse(body) as { observed?: readonly unknown[] };
  return observed === undefined ? null : String(observed.length);
}

function rejectedRow({ position, at, instance, cells }: PageEvent): RequestRow {
  const values: Partial<Record<(typeof REQUEST_COLUMNS)[number], string | null>> = {
    request: cell(cells, AT.request),
    position: String(position),
    end_position: String(position),
    accepted_at: at,
    ended_at: at,
    instance: String(instance),
    rejected_count: cell(cells, AT.rejected_count),
    status: cell(cells, AT.status),
    route: cell(cells, AT.route),
    account: cell(cells, AT.account),
    key: cell(cells, AT.key),
    model: cell(cells, AT.model),
    error_code: cell(cells, AT.error_code),
    end_user: cell(cells, AT.end_user),
    session: cell(cells, AT.session),
    tags: cell(cells, AT.tags),
  };
  return REQUEST_COLUMNS.map((name) => values[name] ?? null);
}
