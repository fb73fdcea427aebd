import type pg from 'pg';
import { DatabaseError } from 'pg';
import type { ControlEvent, RequestEvent } from '#db/events/events.ts';
import { ArrayColumn } from '#db/log/arrays.ts';
import { controlLine } from '#db/log/control-line.ts';
import { explainAppendError } from '#db/log/occupied-position.ts';
import { LineWriter } from '#db/log/line-writer.ts';
import { writeRequestLine } from '#db/log/request-line.ts';
import { retryTransaction } from '#db/postgres/retry-transaction.ts';
import type { Result } from '#db/schema/query.ts';

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
 * A control event with its version in its stream: one more than the version of the state that it was
 * decided on. `claim` names streams that must not exist yet, which is how a name is kept unique.
 */
export type ControlAppend = { event: ControlEvent; version: number; claim?: string | readonly string[] };

const APPEND_REQUESTS = 'select daybook.append($1, $2, $3, $4, $5)';
const APPEND_CONTROL = 'select daybook.append_control($1, $2, $3, $4, $5)';

/**
 * Appends a batch of request events in order, in one transaction.
 *
 * Repeating a call with the same instance and batch number is safe: it returns the first result.
 * @param notifies whether readers of the log are notified as it commits; otherwise see {@link notifyReaders}.
 * @returns the position of the batch's last event; the others stand directly before it.
 * @throws {RangeError} where a value is out of range for its column; nothing is written.
 * @throws {FencedError} when the instance is no longer live.
 * @throws {OccupiedPositionError} when a row that no append wrote is in the way. Any other error of `pg`
 *   passes as it is.
 */
export async function appendRequests(
  client: pg.ClientBase,
  instance: number,
  batchNo: number,
  events: readonly RequestEvent[],
  notifies = true,
): Promise<number> {
  const lines = spares.pop() ?? new ArrayColumn('text');
  lines.reset();
  for (const event of events) {
    writeRequestLine(line, event);
    lines.addBytes(line.bytes, line.length);
  }
  const values = [SHARD, instance, batchNo, lines.finish(), notifies];
  const position = await retryTransaction(() =>
    callAppend(client, 'append_requests', APPEND_REQUESTS, values),
  );
  // Not after a failure, when the client may have it still to send.
  if (spares.length < SPARES_MAX) spares.push(lines);
  return position;
}

/** Notifies the readers of the log that it has grown. */
export async function notifyReaders(client: pg.ClientBase): Promise<void> {
  await client.query("select pg_notify('daybook_log', '')");
}

/** Reusable arrays: a new buffer for each batch would cost garbage collections. */
const spares: ArrayColumn[] = [];
const SPARES_MAX = 2;
const line = new LineWriter();

/**
 * Appends control events in one transaction, each checked against the vocabulary and against the
 * version its stream has reached.
 * @returns the position of the last event.
 * @throws {ConflictError} when a stream has moved on or a claim is taken; nothing is written.
 * @throws {EventTooLargeError} when an event has more than ENTRY_BYTES_MAX bytes; nothing is written.
 * @throws {FencedError} when the instance is no longer live.
 */
export async function appendControl(
  client: pg.ClientBase,
  instance: number,
  batchNo: number,
  appends: readonly ControlAppend[],
): Promise<number> {
  const values = [SHARD, instance, batchNo, ...controlValues(appends)];
  return callAppend(client, 'append_control', APPEND_CONTROL, values);
}

/**
 * The lines and claims of control events, for `daybook.append_control` and the functions that call it.
 * @throws {EventTooLargeError} when an event has more than ENTRY_BYTES_MAX bytes.
 */
export function controlValues(appends: readonly ControlAppend[]): [lines: string[], claims: string[]] {
  return [
    appends.map(({ event, version }) => controlLine(event, version)),
    appends.flatMap(({ claim }) => claim ?? []),
  ];
}

/** Whether this name is claimed, or a stream with this name exists. */
export async function isClaimed(client: pg.ClientBase, claim: string): Promise<boolean> {
  const { rows } = await client.query('select from daybook.stream_head where stream = $1', [claim]);
  return rows.length > 0;
}

/**
 * Calls a function that appends. @returns its position. @throws {FencedError}, {@link ConflictError} and
 * {@link OccupiedPositionError} as appends do.
 */
export async function callAppend(
  client: pg.ClientBase,
  name: string,
  text: string,
  values: unknown[],
): Promise<number> {
  try {
    const result = await client.query<
      [Result<'daybook.append' | 'daybook.adjust_quotas' | 'daybook.append_corrections'>]
    >({
      name,
      text,
      values,
      rowMode: 'array',
    });
    return Number(result.rows[0]?.[0]);
  } catch (error) {
    if (error instanceof DatabaseError && error.code === 'DB001') throw new FencedError(error.message);
    if (error instanceof DatabaseError && error.code === 'DB002') throw new ConflictError(error.message);
    throw explainAppendError(error);
  }
}
