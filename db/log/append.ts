import type pg from 'pg';
import { DatabaseError } from 'pg';
import {
  type ControlEvent,
  END_REASONS,
  Event,
  EVENT_CODES,
  type RequestEvent,
  streamOf,
  USAGE_SOURCES,
} from '#db/events.ts';

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
  return call(client, 'append_requests', APPEND_REQUESTS, [SHARD, instance, batchNo, ...encodeRequests(events)]);
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
  const columns = Array.from({ length: REQUEST_COLUMNS + 4 }, (): string | null => null);
  const column = (pick: (append: ControlAppend) => string | number | null): string => arrayOf(appends.map(pick));
  columns[0] = column(({ event }) => EVENT_CODES[event.type]);
  columns[2] = column(({ event }) => event.account);
  columns[3] = column(({ event }) => ('key' in event ? event.key : null));
  columns[REQUEST_COLUMNS] = column(({ event }) => quote(streamOf(event)));
  columns[REQUEST_COLUMNS + 1] = column(({ version }) => version);
  columns[REQUEST_COLUMNS + 2] = column(({ event }) => quote(bodyOf(event)));
  columns[REQUEST_COLUMNS + 3] = column(({ claim }) => (claim === undefined ? null : quote(claim)));
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

/** An element of an array literal, for texts that may hold any printable ASCII. */
function quote(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}

function arrayOf(elements: readonly (string | number | null)[]): string {
  return `{${elements.map((element) => element ?? 'NULL').join(',')}}`;
}

/**
 * The batch as twenty array literals, in the order of the function's parameters. Written out
 * rather than driven by a table: this runs twice for each relayed request, and one pass that
 * appends to strings costs a third of building twenty arrays and joining them.
 */
function encodeRequests(events: readonly RequestEvent[]): string[] {
  let type = '';
  let request = '';
  let account = '';
  let key = '';
  let model = '';
  let upstream = '';
  let sse = '';
  let bodyBytes = '';
  let holdTokens = '';
  let retryCount = '';
  let status = '';
  let endReason = '';
  let usageSource = '';
  let inputTokens = '';
  let cachedTokens = '';
  let outputTokens = '';
  let reasoningTokens = '';
  let attempts = '';
  let firstByteMs = '';
  let durationMs = '';
  for (const event of events) {
    type += `,${EVENT_CODES[event.type]}`;
    request += `,${event.request}`;
    account += `,${event.account}`;
    key += `,${event.key}`;
    model += `,${quote(event.model)}`;
    if (event.type === 'request.accepted') {
      sse += event.sse ? ',t' : ',f';
      bodyBytes += `,${event.body_bytes}`;
      retryCount += event.retry_count === undefined ? ',NULL' : `,${event.retry_count}`;
    } else {
      sse += ',NULL';
      bodyBytes += ',NULL';
      retryCount += ',NULL';
    }
    if (event.type === 'request.settled') {
      holdTokens += ',NULL';
      upstream += event.upstream === undefined ? ',NULL' : `,${quote(event.upstream)}`;
      status += `,${event.status}`;
      inputTokens += `,${event.input_tokens}`;
      cachedTokens += `,${event.cached_tokens}`;
      outputTokens += `,${event.output_tokens}`;
      reasoningTokens += `,${event.reasoning_tokens}`;
      attempts += `,${event.attempts}`;
      firstByteMs += event.first_byte_ms === undefined ? ',NULL' : `,${event.first_byte_ms}`;
      durationMs += `,${event.duration_ms}`;
    } else {
      holdTokens += `,${event.hold_tokens}`;
      upstream += ',NULL';
      status += ',NULL';
      inputTokens += ',NULL';
      cachedTokens += ',NULL';
      outputTokens += ',NULL';
      reasoningTokens += ',NULL';
      attempts += ',NULL';
      firstByteMs += ',NULL';
      durationMs += ',NULL';
    }
    if (event.type === 'request.accepted') {
      endReason += ',NULL';
      usageSource += ',NULL';
    } else {
      endReason += `,${END_REASONS[event.end_reason]}`;
      usageSource += `,${USAGE_SOURCES[event.usage_source]}`;
    }
  }
  const columns = [
    type, request, account, key, model, upstream, sse, bodyBytes, holdTokens, retryCount, status, endReason,
    usageSource, inputTokens, cachedTokens, outputTokens, reasoningTokens, attempts, firstByteMs, durationMs,
  ];
  return columns.map((column) => `{${column.slice(1)}}`);
}
