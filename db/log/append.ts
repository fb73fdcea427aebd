import type pg from 'pg';
import { DatabaseError } from 'pg';
import { type ControlEvent, Event, EVENT_CODES, type RequestEvent } from '#db/events/events.ts';
import { ArrayColumn, type ElementType } from '#db/log/arrays.ts';
import { retryTransaction } from '#db/postgres/retry-transaction.ts';
import { type ColumnName, CONTROL_COLUMNS, REQUEST_COLUMNS, typeOf } from '#db/log/columns.ts';
import { ENTRY_BYTES_MAX, OTHER_COLUMNS_BYTES_MAX } from '#db/log/bounds.ts';
import { explainAppendError } from '#db/log/occupied-position.ts';
import { fillColumns } from '#db/log/request-rows.ts';
import type { Result } from '#db/schema/query.ts';
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

/** The event's text would be longer than an entry bundle can hold. */
export class EventTooLargeError extends Error {
  override name = 'EventTooLargeError';
}

/**
 * A control event with its version in its stream: one more than the version of the state that it was
 * decided on. `claim` names a stream that must not exist yet, which is how a name is kept unique.
 */
export type ControlAppend = { event: ControlEvent; version: number; claim?: string };

/** An array for each column that some request events have, and their type; see `daybook.append`. */
const newRequestColumns = () => arraysOf(['type', ...REQUEST_COLUMNS] as const);
/** The same for control events; `claim` is of the call alone. */
const newControlColumns = () => ({
  ...arraysOf(['type', ...CONTROL_COLUMNS.map(({ name }) => name)]),
  claim: new ArrayColumn('text'),
});

function elementOf(name: ColumnName): ElementType {
  const type = typeOf(name);
  if (type === 'timestamptz') throw new TypeError(`the database sets ${name}`);
  return type;
}

function arraysOf<Name extends ColumnName>(names: readonly Name[]): Record<Name, ArrayColumn> {
  const arrays = names.map((name) => [name, new ArrayColumn(elementOf(name))]);
  return Object.fromEntries(arrays) as Record<Name, ArrayColumn>;
}

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
 * @throws {FencedError} when the instance is no longer live.
 * @throws {OccupiedPositionError} when a row that no append wrote is in the way. Any other error of `pg`
 *   passes as it is.
 */
export async function appendRequests(
  client: pg.ClientBase,
  instance: number,
  batchNo: number,
  events: readonly RequestEvent[],
): Promise<number> {
  const columns = spares.pop() ?? newRequestColumns();
  fillColumns(columns, events);
  const values = Object.values(columns).map((column) => column.finishColumn(events.length));
  const position = await retryTransaction(() =>
    callAppend(client, 'append_requests', APPEND_REQUESTS, [SHARD, instance, batchNo, ...values]),
  );
  // Not after a failure, when the client may have them still to send.
  if (spares.length < SPARES_MAX) {
    for (const column of Object.values(columns)) column.reset();
    spares.push(columns);
  }
  return position;
}

/** Reusable columns: new buffers for each batch would cost garbage collections. */
const spares: ReturnType<typeof newRequestColumns>[] = [];
const SPARES_MAX = 2;

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
  const columns = controlColumns(appends);
  return callAppend(client, 'append_control', APPEND_CONTROL, [
    SHARD,
    instance,
    batchNo,
    ...Object.values(columns),
  ]);
}

/**
 * The columns of control events, for `daybook.append` and the functions that call it.
 * @throws {EventTooLargeError} when an event has more than ENTRY_BYTES_MAX bytes.
 */
export function controlColumns(
  appends: readonly ControlAppend[],
): Record<keyof ReturnType<typeof newControlColumns>, Buffer | null> {
  const columns = newControlColumns();
  for (const [row, { event, version, claim }] of appends.entries()) {
    columns.type.addInt2(EVENT_CODES[event.type]);
    if ('account' in event) columns.account.addText(event.account, row);
    if ('key' in event && event.key !== undefined) columns.key.addText(event.key, row);
    // It is in the body, too: there so that an auditor finds a model's prices beside its requests.
    if ('model' in event) columns.model.addText(event.model, row);
    columns.stream.addText(streamOf(event));
    columns.version.addInt4(version);
    columns.body.addText(bodyOf(event));
    if (claim !== undefined) columns.claim.addText(claim, row);
  }
  return Object.fromEntries(
    Object.entries(columns).map(([name, column]) => [name, column.finishColumn(appends.length)]),
  ) as Record<keyof typeof columns, Buffer | null>;
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
    const result = await client.query<[Result<'daybook.append' | 'daybook.adjust_usage'>]>({
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

/** What a control event has no column for, as the JSON that is stored and hashed: plain ASCII. */
function bodyOf(event: ControlEvent): string {
  const { type: _type, ...body }: Partial<Record<string, unknown>> = Event.parse(event);
  delete body['account'];
  delete body['key'];
  const text = JSON.stringify(body).replace(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  // Quotes and backslashes are doubled in the text of the row.
  const bytes = text.length + (text.match(/["\\]/g)?.length ?? 0);
  if (bytes > ENTRY_BYTES_MAX - OTHER_COLUMNS_BYTES_MAX)
    throw new EventTooLargeError(
      `The event ${event.type} would have ${bytes} bytes. The log takes events of ` +
        `${ENTRY_BYTES_MAX - OTHER_COLUMNS_BYTES_MAX} bytes: shorten its lists, for instance with patterns.`,
    );
  return text;
}
