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
import { ArrayColumn } from '#db/log/arrays.ts';

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
  const type = new ArrayColumn('int2');
  const account = new ArrayColumn('text');
  const key = new ArrayColumn('text');
  const stream = new ArrayColumn('text');
  const version = new ArrayColumn('int4');
  const body = new ArrayColumn('text');
  const claim = new ArrayColumn('text');
  for (const append of appends) {
    const { event } = append;
    type.addInt2(EVENT_CODES[event.type]);
    account.addText(event.account);
    if ('key' in event) key.addText(event.key);
    else key.addNull();
    stream.addText(streamOf(event));
    version.addInt4(append.version);
    body.addText(bodyOf(event));
    if (append.claim === undefined) claim.addNull();
    else claim.addText(append.claim);
  }
  const columns: (ArrayColumn | null)[] = Array.from({ length: REQUEST_COLUMNS }, () => null);
  columns[0] = type;
  columns[2] = account;
  columns[3] = key;
  columns.push(stream, version, body, claim);
  const values = columns.map((column) => column?.finish() ?? null);
  return call(client, 'append_control', APPEND_CONTROL, [SHARD, instance, batchNo, ...values]);
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
  const type = new ArrayColumn('int2');
  const request = new ArrayColumn('uuid');
  const account = new ArrayColumn('text');
  const key = new ArrayColumn('text');
  const model = new ArrayColumn('text');
  const upstream = new ArrayColumn('text');
  const sse = new ArrayColumn('bool');
  const bodyBytes = new ArrayColumn('int4');
  const holdTokens = new ArrayColumn('int8');
  const retryCount = new ArrayColumn('int2');
  const status = new ArrayColumn('int2');
  const endReason = new ArrayColumn('int2');
  const usageSource = new ArrayColumn('int2');
  const inputTokens = new ArrayColumn('int4');
  const cachedTokens = new ArrayColumn('int4');
  const outputTokens = new ArrayColumn('int4');
  const reasoningTokens = new ArrayColumn('int4');
  const attempts = new ArrayColumn('int2');
  const firstByteMs = new ArrayColumn('int4');
  const durationMs = new ArrayColumn('int4');
  const beginning = [sse, bodyBytes, retryCount];
  const ending = [endReason, usageSource];
  const settlement = [status, inputTokens, cachedTokens, outputTokens, reasoningTokens, attempts, durationMs];

  for (const event of events) {
    type.addInt2(EVENT_CODES[event.type]);
    request.addUuid(event.request);
    account.addText(event.account);
    key.addText(event.key);
    model.addText(event.model);
    if (event.type === 'request.accepted') {
      sse.addBool(event.sse);
      bodyBytes.addInt4(event.body_bytes);
      if (event.retry_count === undefined) retryCount.addNull();
      else retryCount.addInt2(event.retry_count);
      for (const column of ending) column.addNull();
    } else {
      for (const column of beginning) column.addNull();
      endReason.addInt2(END_REASONS[event.end_reason]);
      usageSource.addInt2(USAGE_SOURCES[event.usage_source]);
    }
    if (event.type === 'request.settled') {
      if (event.upstream === undefined) upstream.addNull();
      else upstream.addText(event.upstream);
      holdTokens.addNull();
      status.addInt2(event.status);
      inputTokens.addInt4(event.input_tokens);
      cachedTokens.addInt4(event.cached_tokens);
      outputTokens.addInt4(event.output_tokens);
      reasoningTokens.addInt4(event.reasoning_tokens);
      attempts.addInt2(event.attempts);
      if (event.first_byte_ms === undefined) firstByteMs.addNull();
      else firstByteMs.addInt4(event.first_byte_ms);
      durationMs.addInt4(event.duration_ms);
    } else {
      upstream.addNull();
      holdTokens.addInt8(event.hold_tokens);
      firstByteMs.addNull();
      for (const column of settlement) column.addNull();
    }
  }
  const columns = [
    type, request, account, key, model, upstream, sse, bodyBytes, holdTokens, retryCount, status, endReason,
    usageSource, inputTokens, cachedTokens, outputTokens, reasoningTokens, attempts, firstByteMs, durationMs,
  ];
  return columns.map((column) => column.finish());
}
