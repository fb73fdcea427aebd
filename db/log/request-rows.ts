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
import type { ArrayColumn } from '#db/log/arrays.ts';
import { parseAttempts, parseRoute } from '#db/log/bodies.ts';
import { AT, type RequestColumn, type Row } from '#db/log/columns.ts';

/**
 * The events of requests to their columns and back: the two loops that run for each event, written out,
 * since going by the list of columns takes four times as long. A test appends and reads back an event of each
 * type with every column that the list gives it. Pure.
 */

/** Fills the columns with a batch of request events. */
export function fillColumns(
  columns: Readonly<Record<'type' | RequestColumn, ArrayColumn>>,
  events: readonly RequestEvent[],
): void {
  for (let row = 0; row < events.length; row++) {
    const event = events[row] as RequestEvent;
    columns.type.addInt2(EVENT_CODES[event.type]);
    columns.request.addUuid(event.request);
    columns.account.addText(event.account);
    columns.key.addText(event.key);
    if (event.type === 'request.rejected') {
      columns.error_code.addText(event.error_code, row);
      columns.status.addInt2(event.status, row);
      columns.rejected_count.addInt4(event.rejected_count, row);
      continue;
    }

    columns.model.addText(event.model, row);
    if (event.admitted_minute !== undefined) columns.admitted_minute.addInt4(event.admitted_minute, row);
    if (event.terms_position !== undefined) columns.terms_position.addInt8(event.terms_position, row);
    if (event.type !== 'request.settled') {
      columns.hold_tokens.addInt8(event.hold_tokens, row);
      if (event.hold_cost_microusd !== undefined)
        columns.hold_cost_microusd.addInt8(event.hold_cost_microusd, row);
    }
    if (event.type === 'request.accepted') {
      columns.sse.addBool(event.sse, row);
      columns.body_bytes.addInt4(event.body_bytes, row);
      if (event.retry_count !== undefined) columns.retry_count.addInt2(event.retry_count, row);
      if (event.route !== undefined) columns.body.addText(JSON.stringify({ route: event.route }), row);
    } else if (event.type !== 'request.extended') {
      columns.end_reason.addInt2(END_REASONS[event.end_reason], row);
      columns.usage_source.addInt2(USAGE_SOURCES[event.usage_source], row);
    }
    if (event.type === 'request.settled') {
      if (event.upstream !== undefined) columns.upstream.addText(event.upstream, row);
      columns.status.addInt2(event.status, row);
      columns.input_tokens.addInt4(event.input_tokens, row);
      columns.cached_tokens.addInt4(event.cached_tokens, row);
      columns.output_tokens.addInt4(event.output_tokens, row);
      columns.reasoning_tokens.addInt4(event.reasoning_tokens, row);
      if (event.cost_microusd !== undefined) columns.cost_microusd.addInt8(event.cost_microusd, row);
      if (event.price_version !== undefined) columns.price_version.addInt4(event.price_version, row);
      columns.attempt_count.addInt2(event.attempt_count, row);
      if (event.attempts !== undefined)
        columns.body.addText(JSON.stringify({ attempts: event.attempts }), row);
      if (event.first_byte_ms !== undefined) columns.first_byte_ms.addInt4(event.first_byte_ms, row);
      columns.duration_ms.addInt4(event.duration_ms, row);
    }
  }
}

const TYPE_OF = namesByCode(EVENT_CODES);

/**
 * The event of a request's row; null for a row of another type.
 * @throws {Error} where a column that its type always has is null, or a code is not known.
 */
export function decodeRequest(row: Row): RequestEvent | null {
  const type = TYPE_OF.get(row[AT.type]);
  switch (type) {
    case 'request.accepted': {
      const event: EventOf<typeof type> = {
        type,
        request: needed(row[AT.request]),
        account: needed(row[AT.account]),
        key: needed(row[AT.key]),
        model: needed(row[AT.model]),
        sse: needed(row[AT.sse]),
        body_bytes: needed(row[AT.body_bytes]),
        hold_tokens: Number(needed(row[AT.hold_tokens])),
      };
      addAdmission(event, row);
      addHoldCost(event, row);
      const retry_count = row[AT.retry_count];
      if (retry_count !== null) event.retry_count = retry_count;
      const body = row[AT.body];
      if (body !== null) event.route = parseRoute(body);
      return event;
    }
    case 'request.extended': {
      const event: EventOf<typeof type> = {
        type,
        request: needed(row[AT.request]),
        account: needed(row[AT.account]),
        key: needed(row[AT.key]),
        model: needed(row[AT.model]),
        hold_tokens: Number(needed(row[AT.hold_tokens])),
      };
      addAdmission(event, row);
      addHoldCost(event, row);
      return event;
    }
    case 'request.settled': {
      const event: EventOf<typeof type> = {
        type,
        request: needed(row[AT.request]),
        account: needed(row[AT.account]),
        key: needed(row[AT.key]),
        model: needed(row[AT.model]),
        end_reason: nameOf(END_REASON_OF, row[AT.end_reason]),
        usage_source: nameOf(USAGE_SOURCE_OF, row[AT.usage_source]),
        status: needed(row[AT.status]),
        input_tokens: needed(row[AT.input_tokens]),
        cached_tokens: needed(row[AT.cached_tokens]),
        output_tokens: needed(row[AT.output_tokens]),
        reasoning_tokens: needed(row[AT.reasoning_tokens]),
        attempt_count: needed(row[AT.attempt_count]),
        duration_ms: needed(row[AT.duration_ms]),
      };
      addAdmission(event, row);
      const upstream = row[AT.upstream];
      if (upstream !== null) event.upstream = upstream;
      const first_byte_ms = row[AT.first_byte_ms];
      if (first_byte_ms !== null) event.first_byte_ms = first_byte_ms;
      const cost_microusd = row[AT.cost_microusd];
      if (cost_microusd !== null) event.cost_microusd = Number(cost_microusd);
      const price_version = row[AT.price_version];
      if (price_version !== null) event.price_version = price_version;
      const body = row[AT.body];
      if (body !== null) event.attempts = parseAttempts(body);
      return event;
    }
    case 'request.abandoned': {
      const event: EventOf<typeof type> = {
        type,
        request: needed(row[AT.request]),
        account: needed(row[AT.account]),
        key: needed(row[AT.key]),
        model: needed(row[AT.model]),
        end_reason: nameOf(END_REASON_OF, row[AT.end_reason]),
        usage_source: nameOf(USAGE_SOURCE_OF, row[AT.usage_source]),
        hold_tokens: Number(needed(row[AT.hold_tokens])),
      };
      addAdmission(event, row);
      addHoldCost(event, row);
      return event;
    }
    case 'request.rejected':
      return {
        type,
        request: needed(row[AT.request]),
        account: needed(row[AT.account]),
        key: needed(row[AT.key]),
        error_code: needed(row[AT.error_code]),
        status: needed(row[AT.status]),
        rejected_count: needed(row[AT.rejected_count]),
      };
    default:
      return null;
  }
}

type Call = Exclude<RequestEvent, EventOf<'request.rejected'>>;

/** What each event of a call may have. Assigned, since spreading it costs twice as much. */
function addAdmission(event: Call, row: Row): void {
  const terms_position = row[AT.terms_position];
  if (terms_position !== null) event.terms_position = Number(terms_position);
  const admitted_minute = row[AT.admitted_minute];
  if (admitted_minute !== null) event.admitted_minute = admitted_minute;
}

function addHoldCost(event: Exclude<Call, EventOf<'request.settled'>>, row: Row): void {
  const hold_cost_microusd = row[AT.hold_cost_microusd];
  if (hold_cost_microusd !== null) event.hold_cost_microusd = Number(hold_cost_microusd);
}

/** A value that events of this type always have: one that is missing was never written by us. */
function needed<T>(value: T | null): T {
  if (value === null) throw new TypeError('it lacks a value that every event of its type has');
  return value;
}

function nameOf<T>(names: ReadonlyMap<number, T>, code: number | null): T {
  const name = names.get(needed(code));
  if (name === undefined) throw new TypeError(`it has the code ${code}, which is not known`);
  return name;
}
