import { namesByCode } from '#db/events/codes.ts';
import {
  END_REASON_OF,
  END_REASONS,
  EVENT_CODES,
  type EventOf,
  type RequestEvent,
  USAGE_SOURCE_OF,
  USAGE_SOURCES,
} from '#db/events/events.ts';
import { parseSettlement, settlementBody } from '#db/log/bodies.ts';
import { ROUTE_CODES, ROUTE_OF } from '#db/limits/limits.ts';
import { AT, FIELDS } from '#db/log/columns.ts';
import { type Cells, textCell } from '#db/log/line.ts';

/**
 * The events of requests to their lines and back: the two functions that run for each event, written out,
 * since going by the list of columns takes four times as long. A test appends and reads back an event of each
 * type with every field that the list gives it. Pure.
 */

const INT2_MAX = 2 ** 15 - 1;
const INT4_MAX = 2 ** 31 - 1;
const NO_CELLS: readonly string[] = FIELDS.map(() => '');

/**
 * The line of a request event.
 * @throws {RangeError} where a value is out of range for its column, or is not printable ASCII.
 */
export function requestLine(event: RequestEvent): string {
  const cells = [...NO_CELLS];
  cells[AT.type] = String(EVENT_CODES[event.type]);
  cells[AT.request] = event.request;
  cells[AT.account] = textCell(event.account);
  cells[AT.key] = textCell(event.key);
  if (event.route !== undefined) cells[AT.route] = String(ROUTE_CODES[event.route]);
  if (event.end_user !== undefined) cells[AT.end_user] = textCell(event.end_user);
  if (event.session !== undefined) cells[AT.session] = textCell(event.session);
  if (event.tags !== undefined) cells[AT.tags] = textCell(event.tags.join(' '));
  if (event.type === 'request.rejected') {
    if (event.model !== undefined) cells[AT.model] = textCell(event.model);
    cells[AT.error_code] = textCell(event.error_code);
    cells[AT.status] = integer(event.status, INT2_MAX);
    cells[AT.rejected_count] = integer(event.rejected_count, INT4_MAX);
    return `(${cells.join(',')})`;
  }

  cells[AT.model] = textCell(event.model);
  if (event.parents !== undefined) cells[AT.parents] = textCell(event.parents.join(' '));
  if (event.admitted_minute !== undefined)
    cells[AT.admitted_minute] = integer(event.admitted_minute, INT4_MAX);
  if (event.terms_position !== undefined) cells[AT.terms_position] = integer(event.terms_position);
  if (event.type !== 'request.settled') {
    cells[AT.hold_tokens] = integer(event.hold_tokens);
    if (event.hold_cost_nanousd !== undefined) cells[AT.hold_cost_nanousd] = integer(event.hold_cost_nanousd);
  }
  if (event.type === 'request.accepted') {
    cells[AT.sse] = event.sse ? 't' : 'f';
    cells[AT.body_bytes] = integer(event.body_bytes, INT4_MAX);
    if (event.retry_count !== undefined) cells[AT.retry_count] = integer(event.retry_count, INT2_MAX);
  } else if (event.type !== 'request.extended') {
    cells[AT.end_reason] = String(END_REASONS[event.end_reason]);
    cells[AT.usage_source] = String(USAGE_SOURCES[event.usage_source]);
  }
  if (event.type === 'request.settled') {
    if (event.upstream !== undefined) cells[AT.upstream] = textCell(event.upstream);
    if (event.credential !== undefined) cells[AT.credential] = textCell(event.credential);
    cells[AT.status] = integer(event.status, INT2_MAX);
    cells[AT.input_tokens] = integer(event.input_tokens, INT4_MAX);
    cells[AT.cache_read_tokens] = integer(event.cache_read_tokens, INT4_MAX);
    if (event.cache_write_tokens !== undefined)
      cells[AT.cache_write_tokens] = integer(event.cache_write_tokens, INT4_MAX);
    cells[AT.output_tokens] = integer(event.output_tokens, INT4_MAX);
    cells[AT.reasoning_tokens] = integer(event.reasoning_tokens, INT4_MAX);
    if (event.cost_nanousd !== undefined) cells[AT.cost_nanousd] = integer(event.cost_nanousd);
    if (event.upstream_cost_nanousd !== undefined)
      cells[AT.upstream_cost_nanousd] = integer(event.upstream_cost_nanousd);
    if (event.stated_cost_nanousd !== undefined)
      cells[AT.stated_cost_nanousd] = integer(event.stated_cost_nanousd);
    if (event.price_version !== undefined) cells[AT.price_version] = integer(event.price_version, INT4_MAX);
    cells[AT.attempt_count] = integer(event.attempt_count, INT2_MAX);
    const body = settlementBody(event);
    if (body !== null) cells[AT.body] = textCell(body);
    if (event.first_byte_ms !== undefined) cells[AT.first_byte_ms] = integer(event.first_byte_ms, INT4_MAX);
    cells[AT.duration_ms] = integer(event.duration_ms, INT4_MAX);
    if (event.answered_model !== undefined) cells[AT.answered_model] = textCell(event.answered_model);
    if (event.finish_reason !== undefined) cells[AT.finish_reason] = textCell(event.finish_reason);
    if (event.service_tier !== undefined) cells[AT.service_tier] = textCell(event.service_tier);
    if (event.provider_request !== undefined) cells[AT.provider_request] = textCell(event.provider_request);
  }
  return `(${cells.join(',')})`;
}

/** An integer as a field. @throws {RangeError} beyond the column's type. */
function integer(value: number, max: number = Number.MAX_SAFE_INTEGER): string {
  if (!Number.isInteger(value) || value > max || value < -max)
    throw new RangeError(`an event has ${value} where a column takes integers up to ${max}`);
  return String(value);
}

const TYPE_OF = namesByCode(EVENT_CODES);

/**
 * The event of a request's line; null for a line of another type.
 * @throws {Error} where a field that its type always has is null, or a code is not known.
 */
export function requestEvent(cells: Cells): RequestEvent | null {
  const type = TYPE_OF.get(Number(cells[AT.type]));
  switch (type) {
    case 'request.accepted': {
      const event: EventOf<typeof type> = {
        type,
        request: needed(cells[AT.request]),
        account: needed(cells[AT.account]),
        key: needed(cells[AT.key]),
        model: needed(cells[AT.model]),
        sse: needed(cells[AT.sse]) === 't',
        body_bytes: number(cells[AT.body_bytes]),
        hold_tokens: number(cells[AT.hold_tokens]),
        route: nameOf(ROUTE_OF, cells[AT.route]),
      };
      addAdmission(event, cells);
      addHoldCost(event, cells);
      const retry_count = cells[AT.retry_count];
      if (retry_count != null) event.retry_count = number(retry_count);
      return event;
    }
    case 'request.extended': {
      const event: EventOf<typeof type> = {
        type,
        request: needed(cells[AT.request]),
        account: needed(cells[AT.account]),
        key: needed(cells[AT.key]),
        model: needed(cells[AT.model]),
        hold_tokens: number(cells[AT.hold_tokens]),
      };
      addAdmission(event, cells);
      addHoldCost(event, cells);
      return event;
    }
    case 'request.settled': {
      const event: EventOf<typeof type> = {
        type,
        request: needed(cells[AT.request]),
        account: needed(cells[AT.account]),
        key: needed(cells[AT.key]),
        model: needed(cells[AT.model]),
        end_reason: nameOf(END_REASON_OF, cells[AT.end_reason]),
        usage_source: nameOf(USAGE_SOURCE_OF, cells[AT.usage_source]),
        status: number(cells[AT.status]),
        input_tokens: number(cells[AT.input_tokens]),
        cache_read_tokens: number(cells[AT.cache_read_tokens]),
        output_tokens: number(cells[AT.output_tokens]),
        reasoning_tokens: number(cells[AT.reasoning_tokens]),
        attempt_count: number(cells[AT.attempt_count]),
        duration_ms: number(cells[AT.duration_ms]),
      };
      addAdmission(event, cells);
      const upstream = cells[AT.upstream];
      if (upstream != null) event.upstream = upstream;
      const first_byte_ms = cells[AT.first_byte_ms];
      if (first_byte_ms != null) event.first_byte_ms = number(first_byte_ms);
      const credential = cells[AT.credential];
      if (credential != null) event.credential = credential;
      const cache_write_tokens = cells[AT.cache_write_tokens];
      if (cache_write_tokens != null) event.cache_write_tokens = number(cache_write_tokens);
      const cost_nanousd = cells[AT.cost_nanousd];
      if (cost_nanousd != null) event.cost_nanousd = number(cost_nanousd);
      const upstream_cost_nanousd = cells[AT.upstream_cost_nanousd];
      if (upstream_cost_nanousd != null) event.upstream_cost_nanousd = number(upstream_cost_nanousd);
      const stated_cost_nanousd = cells[AT.stated_cost_nanousd];
      if (stated_cost_nanousd != null) event.stated_cost_nanousd = number(stated_cost_nanousd);
      const answered_model = cells[AT.answered_model];
      if (answered_model != null) event.answered_model = answered_model;
      const finish_reason = cells[AT.finish_reason];
      if (finish_reason != null) event.finish_reason = finish_reason;
      const service_tier = cells[AT.service_tier];
      if (service_tier != null) event.service_tier = service_tier;
      const provider_request = cells[AT.provider_request];
      if (provider_request != null) event.provider_request = provider_request;
      const price_version = cells[AT.price_version];
      if (price_version != null) event.price_version = number(price_version);
      const body = cells[AT.body];
      if (body != null) {
        const { attempts, usage_details, price_plan, unpriced } = parseSettlement(body);
        if (attempts !== undefined) event.attempts = attempts;
        if (usage_details !== undefined) event.usage_details = usage_details;
        if (price_plan !== undefined) event.price_plan = price_plan;
        if (unpriced !== undefined) event.unpriced = unpriced;
      }
      return event;
    }
    case 'request.abandoned': {
      const event: EventOf<typeof type> = {
        type,
        request: needed(cells[AT.request]),
        account: needed(cells[AT.account]),
        key: needed(cells[AT.key]),
        model: needed(cells[AT.model]),
        end_reason: nameOf(END_REASON_OF, cells[AT.end_reason]),
        usage_source: nameOf(USAGE_SOURCE_OF, cells[AT.usage_source]),
        hold_tokens: number(cells[AT.hold_tokens]),
      };
      addAdmission(event, cells);
      addHoldCost(event, cells);
      return event;
    }
    case 'request.rejected': {
      const event: EventOf<typeof type> = {
        type,
        request: needed(cells[AT.request]),
        account: needed(cells[AT.account]),
        key: needed(cells[AT.key]),
        route: nameOf(ROUTE_OF, cells[AT.route]),
        error_code: needed(cells[AT.error_code]),
        status: number(cells[AT.status]),
        rejected_count: number(cells[AT.rejected_count]),
      };
      const model = cells[AT.model];
      if (model != null) event.model = model;
      addAttribution(event, cells);
      return event;
    }
    default:
      return null;
  }
}

type Call = Exclude<RequestEvent, EventOf<'request.rejected'>>;

/** What each event of a call may have. Assigned, since spreading it costs twice as much. */
function addAdmission(event: Call, cells: Cells): void {
  addAttribution(event, cells);
  const route = cells[AT.route];
  if (route != null && event.type !== 'request.accepted') event.route = nameOf(ROUTE_OF, route);
  const parents = cells[AT.parents];
  if (parents != null) event.parents = parents.split(' ');
  const terms_position = cells[AT.terms_position];
  if (terms_position != null) event.terms_position = number(terms_position);
  const admitted_minute = cells[AT.admitted_minute];
  if (admitted_minute != null) event.admitted_minute = number(admitted_minute);
}

function addAttribution(event: RequestEvent, cells: Cells): void {
  const end_user = cells[AT.end_user];
  if (end_user != null) event.end_user = end_user;
  const session = cells[AT.session];
  if (session != null) event.session = session;
  const tags = cells[AT.tags];
  if (tags != null) event.tags = tags.split(' ');
}

function addHoldCost(event: Exclude<Call, EventOf<'request.settled'>>, cells: Cells): void {
  const hold_cost_nanousd = cells[AT.hold_cost_nanousd];
  if (hold_cost_nanousd != null) event.hold_cost_nanousd = number(hold_cost_nanousd);
}

/** A value that events of this type always have: one that is missing was never written by us. */
function needed(value: string | null | undefined): string {
  if (value == null) throw new TypeError('it lacks a value that every event of its type has');
  return value;
}

/** The same of an integer. */
function number(value: string | null | undefined): number {
  const parsed = Number(needed(value));
  if (!Number.isInteger(parsed)) throw new TypeError('it has no integer where its type has one');
  return parsed;
}

function nameOf<T>(names: ReadonlyMap<number, T>, code: string | null | undefined): T {
  const name = names.get(number(code));
  if (name === undefined) throw new TypeError(`it has the code ${code}, which is not known`);
  return name;
}
