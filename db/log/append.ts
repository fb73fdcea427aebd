import type pg from 'pg';
import { DatabaseError } from 'pg';
import {
  type ControlEvent,
  END_REASONS,
  Event,
  EVENT_CODES,
  type EventOf,
  type RequestEvent,
  streamOf,
  USAGE_SOURCES,
} from '#db/events.ts';
import { boolArray, int2Array, int4Array, int8Array, textArray, uuidArray } from '#db/log/arrays.ts';

/** The log has one shard today; the number is in every key and call so that more can come. */
export const SHARD = 0;

/** The instance was declared dead: its requests are abandoned and it must not deliver a byte more. */
export class FencedError extends Error {
  override name = 'FencedError';
}

/** A control stream has moved on since it was read, or a claimed name is taken: decide again. */
export class ConflictError extends Error {
  override name = 'ConflictError';
}

/**
 * A control event with the version it takes in its stream: one more than the state it was decided
 * on. `claim` names a stream that must not exist yet, which is how a name is kept unique.
 */
export type ControlAppend = { event: ControlEvent; version: number; claim?: string };

const REQUEST_COLUMNS = 20;
const parameters = (count: number): string => Array.from({ length: count }, (_, index) => `$${index + 4}`).join(',');
const APPEND_REQUESTS = `select daybook.append($1,$2,$3,${parameters(REQUEST_COLUMNS)})`;
const APPEND_CONTROL = `select daybook.append($1,$2,$3,${parameters(REQUEST_COLUMNS + 4)})`;

/**
 * Appends a batch of request events in order, in one transaction.
 *
 * Repeating a call with the same instance and batch number is safe: it returns the first result.
 * @returns the position of the batch's last event; the others stand directly before it.
 * @throws {FencedError} when the instance is no longer live. Any other error of `pg` passes as it is.
 */
export async function appendRequests(
  client: pg.ClientBase,
  instance: number,
  batchNo: number,
  events: readonly RequestEvent[],
): Promise<number> {
  return call(client, 'append_requests', APPEND_REQUESTS, [SHARD, instance, batchNo, ...requestColumns(events)]);
}

/**
 * Appends control events in one transaction, each checked against the vocabulary and against the
 * version its stream has reached.
 * @returns the position of the last event.
 * @throws {ConflictError} when a stream has moved on or a claim is taken; nothing is written.
 * @throws {FencedError} when the instance is no longer live.
 */
export async function appendControl(
  client: pg.ClientBase,
  instance: number,
  batchNo: number,
  appends: readonly ControlAppend[],
): Promise<number> {
  const columns: (Buffer | null)[] = Array.from({ length: REQUEST_COLUMNS }, () => null);
  columns[0] = int2Array(appends, ({ event }) => EVENT_CODES[event.type]);
  columns[2] = textArray(appends, ({ event }) => event.account);
  columns[3] = textArray(appends, ({ event }) => ('key' in event ? event.key : null));
  columns.push(
    textArray(appends, ({ event }) => streamOf(event)),
    int4Array(appends, ({ version }) => version),
    textArray(appends, ({ event }) => bodyOf(event)),
    textArray(appends, ({ claim }) => claim ?? null),
  );
  return call(client, 'append_control', APPEND_CONTROL, [SHARD, instance, batchNo, ...columns]);
}

async function call(client: pg.ClientBase, name: string, text: string, values: unknown[]): Promise<number> {
  try {
    const result = await client.query<[string]>({ name, text, values, rowMode: 'array' });
    return Number(result.rows[0]?.[0]);
  } catch (error) {
    if (error instanceof DatabaseError && error.code === 'DB001') throw new FencedError(error.message);
    if (error instanceof DatabaseError && error.code === 'DB002') throw new ConflictError(error.message);
    throw error;
  }
}

/** The rare fields of a control event, as the JSON that is stored and hashed: plain ASCII. */
function bodyOf(event: ControlEvent): string {
  const { type: _type, account: _account, ...rest } = Event.parse(event) as ControlEvent & { key?: string };
  delete rest.key;
  return JSON.stringify(rest).replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** The columns of a batch of request events, in the order of the function's parameters. */
function requestColumns(events: readonly RequestEvent[]): Buffer[] {
  const accepted = <T>(pick: (event: EventOf<'request.accepted'>) => T | undefined) => (event: RequestEvent): T | null =>
    event.type === 'request.accepted' ? (pick(event) ?? null) : null;
  const settled = <T>(pick: (event: EventOf<'request.settled'>) => T | undefined) => (event: RequestEvent): T | null =>
    event.type === 'request.settled' ? (pick(event) ?? null) : null;
  return [
    int2Array(events, (event) => EVENT_CODES[event.type]),
    uuidArray(events, (event) => event.request),
    textArray(events, (event) => event.account),
    textArray(events, (event) => event.key),
    textArray(events, (event) => event.model),
    textArray(events, settled((event) => event.upstream)),
    boolArray(events, accepted((event) => event.sse)),
    int4Array(events, accepted((event) => event.body_bytes)),
    int8Array(events, (event) => (event.type === 'request.settled' ? null : event.hold_tokens)),
    int2Array(events, accepted((event) => event.retry_count)),
    int2Array(events, settled((event) => event.status)),
    int2Array(events, (event) => (event.type === 'request.accepted' ? null : END_REASONS[event.end_reason])),
    int2Array(events, (event) => (event.type === 'request.accepted' ? null : USAGE_SOURCES[event.usage_source])),
    int4Array(events, settled((event) => event.input_tokens)),
    int4Array(events, settled((event) => event.cached_tokens)),
    int4Array(events, settled((event) => event.output_tokens)),
    int4Array(events, settled((event) => event.reasoning_tokens)),
    int2Array(events, settled((event) => event.attempts)),
    int4Array(events, settled((event) => event.first_byte_ms)),
    int4Array(events, settled((event) => event.duration_ms)),
  ];
}
