import { namesByCode } from '#db/events/codes.ts';
import { END_REASON_OF, END_REASONS, USAGE_SOURCE_OF, USAGE_SOURCES } from '#db/events/endings.ts';
import { EVENT_CODES, type EventOf, type RequestEvent } from '#db/events/events.ts';
import {
  correctionBody,
  parseCorrection,
  parseReservation,
  parseSettlement,
  reservationBody,
  settlementBody,
} from '#db/log/bodies.ts';
import { CORRECTED_FIGURES } from '#db/events/usage-events.ts';
import { ROUTE_CODES, ROUTE_OF } from '#db/limits/limits.ts';
import { AT, FIELDS } from '#db/log/columns.ts';
import type { Cells } from '#db/log/line.ts';
import type { LineWriter } from '#db/log/line-writer.ts';

/**
 * The events of requests to their lines and back: the two functions that run for each event, written out,
 * since going by the list of columns takes four times as long. A test appends and reads back an event of each
 * type with every field that the list gives it. Pure.
 */

const INT2_MAX = 2 ** 15 - 1;
const INT4_MAX = 2 ** 31 - 1;

/**
 * Writes the line of a request event.
 * @throws {RangeError} where a value is out of range for its column, or is not printable ASCII.
 */
export function writeRequestLine(line: LineWriter, event: RequestEvent): void {
  line.begin(EVENT_CODES[event.type]);
  line.text(AT.request, event.request);
  line.text(AT.account, event.account);
  line.text(AT.key, event.key);
  if (event.model !== undefined) line.text(AT.model, event.model);
  if (event.route !== undefined) line.integer(AT.route, ROUTE_CODES[event.route]);
  if (event.end_user !== undefined) line.text(AT.end_user, event.end_user);
  if (event.session !== undefined) line.text(AT.session, event.session);
  if (event.tags !== undefined) line.text(AT.tags, event.tags.join(' '));
  if (event.type === 'request.rejected') {
    writeRejection(line, event);
  } else {
    if (event.parents !== undefined) line.text(AT.parents, event.parents.join(' '));
    if (event.type === 'request.settled') writeSettlement(line, event);
    else if (event.type === 'usage.adjusted') writeCorrection(line, event);
    else writeReservation(line, event);
  }
  line.end(FIELDS.length);
}

function writeRejection(line: LineWriter, event: EventOf<'request.rejected'>): void {
  if (event.body_bytes !== undefined) line.integer(AT.body_bytes, event.body_bytes, INT4_MAX);
  if (event.hold_tokens !== undefined) line.integer(AT.hold_tokens, event.hold_tokens);
  line.integer(AT.status, event.status, INT2_MAX);
  if (event.admitted_minute !== undefined) line.integer(AT.admitted_minute, event.admitted_minute, INT4_MAX);
  line.integer(AT.rejected_count, event.rejected_count, INT4_MAX);
  line.text(AT.error_code, event.error_code);
  writeSize(line, event);
}

function writeReservation(
  line: LineWriter,
  event: Exclude<Call, EventOf<'request.settled' | 'usage.adjusted'>>,
): void {
  if (event.type === 'request.accepted') {
    line.text(AT.sse, event.sse ? 't' : 'f');
    line.integer(AT.body_bytes, event.body_bytes, INT4_MAX);
  }
  line.integer(AT.hold_tokens, event.hold_tokens);
  if (event.type === 'request.accepted' && event.retry_count !== undefined)
    line.integer(AT.retry_count, event.retry_count, INT2_MAX);
  if (event.type === 'request.abandoned') {
    line.integer(AT.end_reason, END_REASONS[event.end_reason]);
    line.integer(AT.usage_source, USAGE_SOURCES[event.usage_source]);
  }
  if (event.observed !== undefined || event.type === 'request.extended') {
    const body = reservationBody(event);
    if (body !== null) line.text(AT.body, body);
  }
  if (event.terms_position !== undefined) line.integer(AT.terms_position, event.terms_position);
  if (event.hold_cost_nanousd !== undefined) line.integer(AT.hold_cost_nanousd, event.hold_cost_nanousd);
  if (event.admitted_minute !== undefined) line.integer(AT.admitted_minute, event.admitted_minute, INT4_MAX);
  if (event.type === 'request.accepted') writeSize(line, event);
}

function writeSize(line: LineWriter, event: Sized): void {
  if (event.prompt_estimate !== undefined) line.integer(AT.prompt_estimate, event.prompt_estimate, INT4_MAX);
  if (event.max_output_tokens !== undefined)
    line.integer(AT.max_output_tokens, event.max_output_tokens, INT4_MAX);
}

function writeSettlement(line: LineWriter, event: EventOf<'request.settled'>): void {
  if (event.upstream !== undefined) line.text(AT.upstream, event.upstream);
  line.integer(AT.status, event.status, INT2_MAX);
  line.integer(AT.end_reason, END_REASONS[event.end_reason]);
  line.integer(AT.usage_source, USAGE_SOURCES[event.usage_source]);
  line.integer(AT.input_tokens, event.input_tokens, INT4_MAX);
  line.integer(AT.cache_read_tokens, event.cache_read_tokens, INT4_MAX);
  if (event.cache_write_tokens !== undefined)
    line.integer(AT.cache_write_tokens, event.cache_write_tokens, INT4_MAX);
  line.integer(AT.output_tokens, event.output_tokens, INT4_MAX);
  line.integer(AT.reasoning_tokens, event.reasoning_tokens, INT4_MAX);
  line.integer(AT.attempt_count, event.attempt_count, INT2_MAX);
  if (event.first_byte_ms !== undefined) line.integer(AT.first_byte_ms, event.first_byte_ms, INT4_MAX);
  line.integer(AT.duration_ms, event.duration_ms, INT4_MAX);
  const body = settlementBody(event);
  if (body !== null) line.text(AT.body, body);
  if (event.terms_position !== undefined) line.integer(AT.terms_position, event.terms_position);
  if (event.cost_nanousd !== undefined) line.integer(AT.cost_nanousd, event.cost_nanousd);
  if (event.upstream_cost_nanousd !== undefined)
    line.integer(AT.upstream_cost_nanousd, event.upstream_cost_nanousd);
  if (event.stated_cost_nanousd !== undefined)
    line.integer(AT.stated_cost_nanousd, event.stated_cost_nanousd);
  if (event.admitted_minute !== undefined) line.integer(AT.admitted_minute, event.admitted_minute, INT4_MAX);
  if (event.price_version !== undefined) line.integer(AT.price_version, event.price_version, INT4_MAX);
  if (event.credential !== undefined) line.text(AT.credential, event.credential);
  if (event.answered_model !== undefined) line.text(AT.answered_model, event.answered_model);
  if (event.finish_reason !== undefined) line.text(AT.finish_reason, event.finish_reason);
  if (event.service_tier !== undefined) line.text(AT.service_tier, event.service_tier);
  if (event.provider_request !== undefined) line.text(AT.provider_request, event.provider_request);
}

function writeCorrection(line: LineWriter, event: EventOf<'usage.adjusted'>): void {
  const tokens = ['input', 'cache_read', 'cache_write', 'output', 'reasoning'] as const;
  if (event.upstream !== undefined) line.text(AT.upstream, event.upstream);
  if (event.hold_tokens !== undefined) line.integer(AT.hold_tokens, event.hold_tokens);
  if (event.status !== undefined) line.integer(AT.status, event.status, INT2_MAX);
  line.integer(AT.end_reason, END_REASONS[event.end_reason]);
  for (const name of tokens) {
    const delta = event[`${name}_tokens`];
    if (delta !== undefined) line.integer(AT[`${name}_tokens`], delta, INT4_MAX);
  }
  line.text(AT.body, correctionBody(event));
  if (event.terms_position !== undefined) line.integer(AT.terms_position, event.terms_position);
  if (event.cost_nanousd !== undefined) line.integer(AT.cost_nanousd, event.cost_nanousd);
  if (event.upstream_cost_nanousd !== undefined)
    line.integer(AT.upstream_cost_nanousd, event.upstream_cost_nanousd);
  if (event.admitted_minute !== undefined) line.integer(AT.admitted_minute, event.admitted_minute, INT4_MAX);
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
      addReservation(event, cells);
      addSize(event, cells);
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
      addReservation(event, cells);
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
        const { attempts, usage_details, price_plan, unpriced, observed } = parseSettlement(body);
        if (attempts !== undefined) event.attempts = attempts;
        if (usage_details !== undefined) event.usage_details = usage_details;
        if (price_plan !== undefined) event.price_plan = price_plan;
        if (unpriced !== undefined) event.unpriced = unpriced;
        if (observed !== undefined) event.observed = observed;
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
      addReservation(event, cells);
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
      const body_bytes = cells[AT.body_bytes];
      if (body_bytes != null) event.body_bytes = number(body_bytes);
      const hold_tokens = cells[AT.hold_tokens];
      if (hold_tokens != null) event.hold_tokens = number(hold_tokens);
      const admitted_minute = cells[AT.admitted_minute];
      if (admitted_minute != null) event.admitted_minute = number(admitted_minute);
      addSize(event, cells);
      return event;
    }
    case 'usage.adjusted': {
      const event: EventOf<typeof type> = {
        type,
        request: needed(cells[AT.request]),
        account: needed(cells[AT.account]),
        key: needed(cells[AT.key]),
        model: needed(cells[AT.model]),
        end_reason: nameOf(END_REASON_OF, cells[AT.end_reason]),
        ...parseCorrection(needed(cells[AT.body])),
      };
      addAdmission(event, cells);
      const upstream = cells[AT.upstream];
      if (upstream != null) event.upstream = upstream;
      const status = cells[AT.status];
      if (status != null) event.status = number(status);
      for (const figure of CORRECTED_FIGURES) {
        const delta = cells[AT[figure]];
        if (delta != null) event[figure] = number(delta);
      }
      return event;
    }
    default:
      return null;
  }
}

type Call = Exclude<RequestEvent, EventOf<'request.rejected'>>;
type Sized = EventOf<'request.accepted' | 'request.rejected'>;

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

function addSize(event: Sized, cells: Cells): void {
  const prompt_estimate = cells[AT.prompt_estimate];
  if (prompt_estimate != null) event.prompt_estimate = number(prompt_estimate);
  const max_output_tokens = cells[AT.max_output_tokens];
  if (max_output_tokens != null) event.max_output_tokens = number(max_output_tokens);
}

function addReservation(
  event: Exclude<Call, EventOf<'request.settled' | 'usage.adjusted'>>,
  cells: Cells,
): void {
  const body = cells[AT.body];
  if (body != null) Object.assign(event, parseReservation(body));
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
