import type pg from 'pg';
import { DatabaseError } from 'pg';
import {
  type ControlEvent,
  END_REASONS,
  Event,
  EVENT_CODES,
  type RequestEvent,
  USAGE_SOURCES,
} from '#db/events/events.ts';
import { ArrayColumn } from '#db/log/arrays.ts';
import { streamOf } from '#db/events/streams.ts';

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

/** A column for each field that request events have, under its name; see `daybook.append`. */
const newRequestColumns = () => ({
  type: new ArrayColumn('int2'),
  request: new ArrayColumn('uuid'),
  account: new ArrayColumn('text'),
  key: new ArrayColumn('text'),
  model: new ArrayColumn('text'),
  upstream: new ArrayColumn('text'),
  sse: new ArrayColumn('bool'),
  body_bytes: new ArrayColumn('int4'),
  hold_tokens: new ArrayColumn('int8'),
  hold_cost_microusd: new ArrayColumn('int8'),
  admitted_minute: new ArrayColumn('int4'),
  terms_position: new ArrayColumn('int8'),
  retry_count: new ArrayColumn('int2'),
  status: new ArrayColumn('int2'),
  end_reason: new ArrayColumn('int2'),
  usage_source: new ArrayColumn('int2'),
  input_tokens: new ArrayColumn('int4'),
  cached_tokens: new ArrayColumn('int4'),
  output_tokens: new ArrayColumn('int4'),
  reasoning_tokens: new ArrayColumn('int4'),
  cost_microusd: new ArrayColumn('int8'),
  price_version: new ArrayColumn('int4'),
  attempts: new ArrayColumn('int2'),
  first_byte_ms: new ArrayColumn('int4'),
  duration_ms: new ArrayColumn('int4'),
  refusal: new ArrayColumn('text'),
  refused_count: new ArrayColumn('int4'),
  body: new ArrayColumn('text'),
});

const newControlColumns = () => ({
  type: new ArrayColumn('int2'),
  account: new ArrayColumn('text'),
  key: new ArrayColumn('text'),
  model: new ArrayColumn('text'),
  stream: new ArrayColumn('text'),
  version: new ArrayColumn('int4'),
  body: new ArrayColumn('text'),
  claim: new ArrayColumn('text'),
});

/** The call with these columns; the others are null. */
function appendSql(columns: Record<string, ArrayColumn>): string {
  const named = Object.keys(columns).map((name, index) => `_${name}=>$${index + 4}`);
  return `select daybook.append($1,$2,$3,${named.join(',')})`;
}
const APPEND_REQUESTS = appendSql(newRequestColumns());
const APPEND_CONTROL = appendSql(newControlColumns());

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
  const columns = spares.pop() ?? newRequestColumns();
  fill(columns, events);
  const values = Object.values(columns).map((column) => column.finishColumn(events.length));
  const position = await call(client, 'append_requests', APPEND_REQUESTS, [
    SHARD,
    instance,
    batchNo,
    ...values,
  ]);
  // Not after a failure, when the client may have them still to send.
  if (spares.length < SPARES_MAX) {
    for (const column of Object.values(columns)) column.reset();
    spares.push(columns);
  }
  return position;
}

/** Columns to be filled again: buffers made anew for each batch would cost garbage collections. */
const spares: ReturnType<typeof newRequestColumns>[] = [];
const SPARES_MAX = 2;

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
  const columns = newControlColumns();
  for (const [row, { event, version, claim }] of appends.entries()) {
    columns.type.addInt2(EVENT_CODES[event.type]);
    if ('account' in event) columns.account.addText(event.account, row);
    if ('key' in event) columns.key.addText(event.key, row);
    // It is in the body, too: there so that an auditor finds a model's prices beside its requests.
    if ('model' in event) columns.model.addText(event.model, row);
    columns.stream.addText(streamOf(event));
    columns.version.addInt4(version);
    columns.body.addText(bodyOf(event));
    if (claim !== undefined) columns.claim.addText(claim, row);
  }
  const values = Object.values(columns).map((column) => column.finishColumn(appends.length));
  return call(client, 'append_control', APPEND_CONTROL, [SHARD, instance, batchNo, ...values]);
}

/** Whether somebody has claimed this name, or there is a stream of it. */
export async function isClaimed(client: pg.ClientBase, claim: string): Promise<boolean> {
  const { rows } = await client.query('select from daybook.stream_head where stream = $1', [claim]);
  return rows.length > 0;
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

/** What a control event has no column for, as the JSON that is stored and hashed: plain ASCII. */
function bodyOf(event: ControlEvent): string {
  const { type: _type, ...body }: Partial<Record<string, unknown>> = Event.parse(event);
  delete body['account'];
  delete body['key'];
  return JSON.stringify(body).replace(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Fills the columns with a batch of request events. */
function fill(columns: ReturnType<typeof newRequestColumns>, events: readonly RequestEvent[]): void {
  for (let row = 0; row < events.length; row++) {
    const event = events[row] as RequestEvent;
    columns.type.addInt2(EVENT_CODES[event.type]);
    columns.request.addUuid(event.request);
    columns.account.addText(event.account);
    columns.key.addText(event.key);
    if (event.type === 'request.rejected') {
      columns.refusal.addText(event.refusal, row);
      columns.status.addInt2(event.status, row);
      columns.refused_count.addInt4(event.refused_count, row);
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
      columns.attempts.addInt2(event.attempts, row);
      if (event.tries !== undefined) columns.body.addText(JSON.stringify({ tries: event.tries }), row);
      if (event.first_byte_ms !== undefined) columns.first_byte_ms.addInt4(event.first_byte_ms, row);
      columns.duration_ms.addInt4(event.duration_ms, row);
    }
  }
}
