import { z } from 'zod';
import { namesByCode } from '#db/events/codes.ts';
import {
  END_REASON_OF,
  EVENT_CODES,
  type Event,
  type EventOf,
  type EventType,
  parseEvent,
  USAGE_SOURCE_OF,
} from '#db/events/events.ts';
import { RELAYED_ROUTES, type RelayedRoute } from '#db/limits/limits.ts';
import { Attempt, ATTEMPTS_MAX } from '#db/events/upstream-events.ts';

/** From a row of the log to its event. Pure. */

const TYPE_OF = namesByCode(EVENT_CODES);

/** What {@link decode} makes an event of, in its order. */
export const COLUMNS = `position, at::text, type, instance, account, key, request, model, upstream, sse, body_bytes,
  hold_tokens, retry_count, status, end_reason, usage_source, input_tokens, cached_tokens, output_tokens,
  reasoning_tokens, attempts, first_byte_ms, duration_ms, stream, version, body, terms_position,
  hold_cost_microusd, cost_microusd, admitted_minute, price_version, refused_count, refusal`;
export type Row = [
  position: string,
  at: string,
  type: number,
  instance: number,
  account: string,
  key: string,
  request: string,
  model: string,
  upstream: string | null,
  sse: boolean,
  bodyBytes: number,
  holdTokens: string,
  retryCount: number | null,
  status: number,
  endReason: number,
  usageSource: number,
  inputTokens: number,
  cachedTokens: number,
  outputTokens: number,
  reasoningTokens: number,
  attempts: number,
  firstByteMs: number | null,
  durationMs: number,
  stream: string | null,
  version: number | null,
  body: string | null,
  termsPosition: string | null,
  holdCostMicrousd: string | null,
  costMicrousd: string | null,
  admittedMinute: number | null,
  priceVersion: number | null,
  refusedCount: number,
  refusal: string,
];

/**
 * The event of a row. Request rows come from typed columns that we wrote; bodies are text and are parsed with
 * care.
 * @throws {Error} where it is not of the vocabulary.
 */
export function decode(row: Row): Event {
  const type = TYPE_OF.get(row[2]);
  switch (type) {
    case 'request.accepted': {
      const event = withAdmission(row, {
        type,
        request: row[6],
        account: row[4],
        key: row[5],
        model: row[7],
        sse: row[9],
        body_bytes: row[10],
        hold_tokens: Number(row[11]),
      });
      if (row[12] !== null) event.retry_count = row[12];
      if (row[25] !== null) event.route = routeOf(row[25]);
      return event;
    }
    case 'request.extended':
      return withAdmission(row, {
        type,
        request: row[6],
        account: row[4],
        key: row[5],
        model: row[7],
        hold_tokens: Number(row[11]),
      });
    case 'request.settled': {
      const event = withAdmission(row, {
        type,
        ...ending(row),
        status: row[13],
        input_tokens: row[16],
        cached_tokens: row[17],
        output_tokens: row[18],
        reasoning_tokens: row[19],
        attempts: row[20],
        duration_ms: row[22],
      });
      if (row[8] !== null) event.upstream = row[8];
      if (row[21] !== null) event.first_byte_ms = row[21];
      if (row[28] !== null) event.cost_microusd = Number(row[28]);
      if (row[30] !== null) event.price_version = row[30];
      if (row[25] !== null) event.tries = triesOf(row[25]);
      return event;
    }
    case 'request.abandoned':
      return withAdmission(row, { type, ...ending(row), hold_tokens: Number(row[11]) });
    case 'request.rejected':
      return {
        type,
        request: row[6],
        account: row[4],
        key: row[5],
        refusal: row[32],
        status: row[13],
        refused_count: row[31],
      };
    default:
      return decodeControl(type, row);
  }
}

const Accepted = z.strictObject({ route: z.enum(RELAYED_ROUTES) });
const Settled = z.strictObject({ tries: z.array(Attempt).max(ATTEMPTS_MAX) });

/**
 * What an accepted request has no column for, from its body. @throws {Error} where it is not of the
 * vocabulary.
 */
export function routeOf(body: string): RelayedRoute {
  return Accepted.parse(JSON.parse(body)).route;
}

/** The same of a settled one. */
export function triesOf(body: string): Attempt[] {
  return Settled.parse(JSON.parse(body)).tries;
}

type Admitted = EventOf<'request.accepted' | 'request.extended' | 'request.settled' | 'request.abandoned'>;

/** Adds what requests carry since there are limits. Assigned, since spreading it costs twice as much. */
function withAdmission<T extends Admitted['type']>(row: Row, event: EventOf<T>): EventOf<T> {
  const admitted: Admitted = event;
  if (row[26] !== null) admitted.terms_position = Number(row[26]);
  if (row[29] !== null) admitted.admitted_minute = row[29];
  if (row[27] !== null && admitted.type !== 'request.settled') admitted.hold_cost_microusd = Number(row[27]);
  return event;
}

function decodeControl(type: EventType | undefined, row: Row): Event {
  const event = JSON.parse(row[25] ?? '{}') as Record<string, unknown>;
  event['type'] = type;
  if (row[4] !== null) event['account'] = row[4];
  if (row[5] !== null) event['key'] = row[5];
  return parseEvent(event);
}

function ending(row: Row) {
  const endReason = END_REASON_OF.get(row[14]);
  const usageSource = USAGE_SOURCE_OF.get(row[15]);
  if (!endReason || !usageSource) throw new TypeError('the code of the ending is not known');
  return {
    request: row[6],
    account: row[4],
    key: row[5],
    model: row[7],
    end_reason: endReason,
    usage_source: usageSource,
  };
}
