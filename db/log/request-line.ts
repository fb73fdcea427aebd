import { namesByCode } from '#db/events/codes.ts';
import { END_REASON_OF, END_REASONS, USAGE_SOURCE_OF, USAGE_SOURCES } from '#db/events/endings.ts';
import { EVENT_CODES, type EventOf, type RequestEvent } from '#db/events/events.ts';
import {
  correctionBody,
  exchangeBody,
  parseCorrection,
  parseExchange,
  parseReservation,
  parseSettlement,
  reservationBody,
  settlementBody,
} from '#db/log/bodies.ts';
import { CORRECTED_FIGURES } from '#db/events/usage-events.ts';
import { ROUTE_CODES, ROUTE_OF } from '#db/limits/limits.ts';
import { AT, FIELDS } from '#db/log/columns.ts';
import type { LineReader } from '#db/log/line-reader.ts';
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
  if (event.type === 'workload.exchanged') {
    line.text(AT.body, exchangeBody(event));
    return line.end(FIELDS.length);
  }
  if (event.model !== undefined) line.text(AT.model, event.model);
  if (event.route !== undefined) line.integer(AT.route, ROUTE_CODES[event.route]);
  if (event.end_user !== undefined) line.text(AT.end_user, event.end_user);
  if (event.session !== undefined) line.text(AT.session, event.session);
  if (event.tags !== undefined) line.text(AT.tags, event.tags.join(' '));
  if (event.type === 'request.rejected') writeRejection(line, event);
  else if (event.type === 'tokens.counted') writeTokenCount(line, event);
  else {
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

function writeTokenCount(line: LineWriter, event: EventOf<'tokens.counted'>): void {
  if (event.upstream !== undefined) line.text(AT.upstream, event.upstream);
  line.integer(AT.body_bytes, event.body_bytes, INT4_MAX);
  line.integer(AT.usage_source, USAGE_SOURCES[event.usage_source]);
  line.integer(AT.input_tokens, event.input_tokens, INT4_MAX);
  line.integer(AT.duration_ms, event.duration_ms, INT4_MAX);
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
  const isBatched = event.type === 'request.accepted' && event.batch !== undefined;
  if (event.observed !== undefined || event.type === 'request.extended' || isBatched) {
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
export function requestEvent(line: LineReader): RequestEvent | null {
  const type = TYPE_OF.get(line.integer(AT.type));
  switch (type) {
    case 'request.accepted': {
      const event: EventOf<typeof type> = {
        type,
        request: line.text(AT.request),
        account: line.name(AT.account),
        key: line.name(AT.key),
        model: line.name(AT.model),
        sse: line.text(AT.sse) === 't',
        body_bytes: line.integer(AT.body_bytes),
        hold_tokens: line.integer(AT.hold_tokens),
        route: nameOf(ROUTE_OF, line.integer(AT.route)),
      };
      addAdmission(event, line);
      addReservation(event, line);
      addSize(event, line);
      if (line.has(AT.retry_count)) event.retry_count = line.integer(AT.retry_count);
      return event;
    }
    case 'request.extended': {
      const event: EventOf<typeof type> = {
        type,
        request: line.text(AT.request),
        account: line.name(AT.account),
        key: line.name(AT.key),
        model: line.name(AT.model),
        hold_tokens: line.integer(AT.hold_tokens),
      };
      addAdmission(event, line);
      addReservation(event, line);
      return event;
    }
    case 'request.settled': {
      const event: EventOf<typeof type> = {
        type,
        request: line.text(AT.request),
        account: line.name(AT.account),
        key: line.name(AT.key),
        model: line.name(AT.model),
        end_reason: nameOf(END_REASON_OF, line.integer(AT.end_reason)),
        usage_source: nameOf(USAGE_SOURCE_OF, line.integer(AT.usage_source)),
        status: line.integer(AT.status),
        input_tokens: line.integer(AT.input_tokens),
        cache_read_tokens: line.integer(AT.cache_read_tokens),
        output_tokens: line.integer(AT.output_tokens),
        reasoning_tokens: line.integer(AT.reasoning_tokens),
        attempt_count: line.integer(AT.attempt_count),
        duration_ms: line.integer(AT.duration_ms),
      };
      addAdmission(event, line);
      if (line.has(AT.upstream)) event.upstream = line.name(AT.upstream);
      if (line.has(AT.first_byte_ms)) event.first_byte_ms = line.integer(AT.first_byte_ms);
      if (line.has(AT.credential)) event.credential = line.name(AT.credential);
      if (line.has(AT.cache_write_tokens)) event.cache_write_tokens = line.integer(AT.cache_write_tokens);
      if (line.has(AT.cost_nanousd)) event.cost_nanousd = line.integer(AT.cost_nanousd);
      if (line.has(AT.upstream_cost_nanousd))
        event.upstream_cost_nanousd = line.integer(AT.upstream_cost_nanousd);
      if (line.has(AT.stated_cost_nanousd)) event.stated_cost_nanousd = line.integer(AT.stated_cost_nanousd);
      if (line.has(AT.answered_model)) event.answered_model = line.name(AT.answered_model);
      if (line.has(AT.finish_reason)) event.finish_reason = line.name(AT.finish_reason);
      if (line.has(AT.service_tier)) event.service_tier = line.name(AT.service_tier);
      if (line.has(AT.provider_request)) event.provider_request = line.text(AT.provider_request);
      if (line.has(AT.price_version)) event.price_version = line.integer(AT.price_version);
      if (line.has(AT.body)) Object.assign(event, parseSettlement(line.text(AT.body)));
      return event;
    }
    case 'request.abandoned': {
      const event: EventOf<typeof type> = {
        type,
        request: line.text(AT.request),
        account: line.name(AT.account),
        key: line.name(AT.key),
        model: line.name(AT.model),
        end_reason: nameOf(END_REASON_OF, line.integer(AT.end_reason)),
        usage_source: nameOf(USAGE_SOURCE_OF, line.integer(AT.usage_source)),
        hold_tokens: line.integer(AT.hold_tokens),
      };
      addAdmission(event, line);
      addReservation(event, line);
      return event;
    }
    case 'request.rejected': {
      const event: EventOf<typeof type> = {
        type,
        request: line.text(AT.request),
        account: line.name(AT.account),
        key: line.name(AT.key),
        route: nameOf(ROUTE_OF, line.integer(AT.route)),
        error_code: line.name(AT.error_code),
        status: line.integer(AT.status),
        rejected_count: line.integer(AT.rejected_count),
      };
      if (line.has(AT.model)) event.model = line.name(AT.model);
      addAttribution(event, line);
      if (line.has(AT.body_bytes)) event.body_bytes = line.integer(AT.body_bytes);
      if (line.has(AT.hold_tokens)) event.hold_tokens = line.integer(AT.hold_tokens);
      if (line.has(AT.admitted_minute)) event.admitted_minute = line.integer(AT.admitted_minute);
      addSize(event, line);
      return event;
    }
    case 'usage.adjusted': {
      const event: EventOf<typeof type> = {
        type,
        request: line.text(AT.request),
        account: line.name(AT.account),
        key: line.name(AT.key),
        model: line.name(AT.model),
        end_reason: nameOf(END_REASON_OF, line.integer(AT.end_reason)),
        ...parseCorrection(line.text(AT.body)),
      };
      addAdmission(event, line);
      if (line.has(AT.upstream)) event.upstream = line.name(AT.upstream);
      if (line.has(AT.status)) event.status = line.integer(AT.status);
      for (const figure of CORRECTED_FIGURES)
        if (line.has(AT[figure])) event[figure] = line.integer(AT[figure]);
      return event;
    }
    case 'tokens.counted': {
      const event: EventOf<typeof type> = {
        type,
        request: line.text(AT.request),
        account: line.name(AT.account),
        key: line.name(AT.key),
        model: line.name(AT.model),
        route: nameOf(ROUTE_OF, line.integer(AT.route)),
        body_bytes: line.integer(AT.body_bytes),
        usage_source: nameOf(USAGE_SOURCE_OF, line.integer(AT.usage_source)),
        input_tokens: line.integer(AT.input_tokens),
        duration_ms: line.integer(AT.duration_ms),
      };
      addAttribution(event, line);
      if (line.has(AT.upstream)) event.upstream = line.name(AT.upstream);
      return event;
    }
    case 'workload.exchanged':
      return {
        type,
        request: line.text(AT.request),
        account: line.name(AT.account),
        key: line.name(AT.key),
        ...parseExchange(line.text(AT.body)),
      };
    default:
      return null;
  }
}

type Call = Exclude<RequestEvent, EventOf<'request.rejected' | 'tokens.counted' | 'workload.exchanged'>>;
type Sized = EventOf<'request.accepted' | 'request.rejected'>;

/** What each event of a call may have. Assigned, since spreading it costs twice as much. */
function addAdmission(event: Call, line: LineReader): void {
  addAttribution(event, line);
  if (line.has(AT.route) && event.type !== 'request.accepted')
    event.route = nameOf(ROUTE_OF, line.integer(AT.route));
  if (line.has(AT.parents)) event.parents = line.text(AT.parents).split(' ');
  if (line.has(AT.terms_position)) event.terms_position = line.integer(AT.terms_position);
  if (line.has(AT.admitted_minute)) event.admitted_minute = line.integer(AT.admitted_minute);
}

function addAttribution(event: Exclude<RequestEvent, EventOf<'workload.exchanged'>>, line: LineReader): void {
  if (line.has(AT.end_user)) event.end_user = line.name(AT.end_user);
  if (line.has(AT.session)) event.session = line.name(AT.session);
  if (line.has(AT.tags)) event.tags = line.text(AT.tags).split(' ');
}

function addSize(event: Sized, line: LineReader): void {
  if (line.has(AT.prompt_estimate)) event.prompt_estimate = line.integer(AT.prompt_estimate);
  if (line.has(AT.max_output_tokens)) event.max_output_tokens = line.integer(AT.max_output_tokens);
}

function addReservation(
  event: Exclude<Call, EventOf<'request.settled' | 'usage.adjusted'>>,
  line: LineReader,
): void {
  if (line.has(AT.body)) Object.assign(event, parseReservation(line.text(AT.body)));
  if (line.has(AT.hold_cost_nanousd)) event.hold_cost_nanousd = line.integer(AT.hold_cost_nanousd);
}

function nameOf<T>(names: ReadonlyMap<number, T>, code: number): T {
  const name = names.get(code);
  if (name === undefined) throw new TypeError(`it has the code ${code}, which is not known`);
  return name;
}
