import { sql } from 'kysely';
import type pg from 'pg';
import { SHARD } from '#db/log/append.ts';
import { SKIPPABLE_CODES_FROM } from '#db/events/codes.ts';
import { type ControlEvent, isControl, type Placed } from '#db/events/events.ts';
import { type EventOfStream, streamOf } from '#db/events/streams.ts';
import { type BatchEvents, countLines } from '#db/log/chain.ts';
import { AT, AT_US } from '#db/log/columns.ts';
import { decode } from '#db/log/decode.ts';
import { LineReader } from '#db/log/line-reader.ts';
import { type Cell, db, onlyRowOf, type Result, rowsOf } from '#db/schema/query.ts';

/** How many rows a page holds: large enough that a round trip is a small part of reading it. */
export const PAGE_ROWS = 5000;

/** A row that the vocabulary does not know: damaged, or written by a newer version. */
export class UnreadableEventError extends Error {
  override name = 'UnreadableEventError';
  readonly position: number;
  /** The columns that every version reads; null where the row itself was damaged. */
  readonly row: UnreadRow | null;
  constructor(position: number, cause: unknown, row: UnreadRow | null = null) {
    super(`the event at position ${position} can't be read`, { cause });
    this.position = position;
    this.row = row;
  }

  /** Whether a reader may go on as if the event weren't there; see {@link SKIPPABLE_CODES_FROM}. */
  get maySkip(): boolean {
    return this.row !== null && this.row.type >= SKIPPABLE_CODES_FROM;
  }
}

export type UnreadRow = {
  type: number;
  stream: string | null;
  version: number | null;
  account: string | null;
  key: string | null;
};

/** A position is missing although it lies below the head: the log was cut or damaged. */
export class GapError extends Error {
  override name = 'GapError';
  constructor(position: number) {
    super(`the log has no event at position ${position}`);
  }
}

/** The requested events were moved to the archive. */
export class ArchivedError extends Error {
  override name = 'ArchivedError';
  /** From here on the log is whole. */
  readonly firstPosition: number;
  constructor(first: number, files: readonly string[]) {
    super(
      `the log before position ${first} is in its archive; to read it, restore ${files.join(', ')} ` +
        '(daybook archive restore)',
    );
    this.firstPosition = first;
  }
}

/** A line as it is read: its position, its time in microseconds since 1970, its instance, and its text. */
export type LineRow = [
  position: Cell<'daybook.control_event', 'position'>,
  atUs: string,
  instance: Cell<'daybook.control_event', 'instance'>,
  line: Cell<'daybook.control_event', 'line'>,
];
/** The columns of a {@link LineRow}, of `daybook.lines` and of `daybook.control_event`. */
export const LINE_COLUMNS = `position, ${AT_US} as at_us, instance, line`;

const READ_CONTROL = `select ${LINE_COLUMNS} from daybook.control_event
  where shard = $1 and position > $2 order by position limit $3`;
const READ_STREAM = `select ${LINE_COLUMNS} from daybook.control_event
  where shard = $1 and stream = $2 order by version`;

/** Which events to read: everything, or only control events (accounts, keys, …), which are few. */
export type Scope = 'all' | 'control';

/** What a row of the log came to: its event or, where it is not of the vocabulary, what says so. */
export type Read = Placed | UnreadableEventError;

/**
 * The next page of the log in order: of at most `limit` events with a position above `after` those that this
 * version knows.
 * @throws {UnreadableEventError} at a row that is not of the vocabulary and may not be skipped.
 */
export async function readPage(
  client: pg.ClientBase,
  after: number,
  scope: Scope = 'all',
  limit: number = PAGE_ROWS,
): Promise<Placed[]> {
  return allReadable(await readRows(client, after, scope, limit));
}

/**
 * The events of rows that were read, without those of newer versions that may be skipped.
 * @throws {UnreadableEventError} the first that may not be skipped.
 */
export function allReadable(rows: readonly Read[]): Placed[] {
  return rows.flatMap((row) => {
    if (!(row instanceof UnreadableEventError)) return [row];
    if (!row.maySkip) throw row;
    return [];
  });
}

/**
 * The same for rows that are of control events.
 * @throws {UnreadableEventError} the first that is among them, or the first of a request.
 */
export function allControl(rows: readonly Read[]): Placed<ControlEvent>[] {
  return allReadable(rows).map((placed) => {
    if (!isControl(placed))
      throw new UnreadableEventError(placed.position, new Error('it is no control event'));
    return placed;
  });
}

/** The same page row by row, for those who can go on without the events that they can't read. */
export async function readRows(
  client: pg.ClientBase,
  after: number,
  scope: Scope,
  limit: number = PAGE_ROWS,
): Promise<Read[]> {
  if (scope === 'all') return readAll(client, after, limit);
  return queryLines(client, 'read_control', READ_CONTROL, [SHARD, after, limit]);
}

async function readAll(client: pg.ClientBase, after: number, limit: number): Promise<Read[]> {
  const range = { after, upTo: after + limit };
  return (await readBatches(client, range)).flatMap((batch) => readEvents(batch, range));
}

/** The positions above one up to another. */
export type LogRange = { after: number; upTo: number };

const READ_BATCHES = `select last_position, event_count, ${AT_US} as at_us, instance, events from daybook.log
  where shard = $1 and last_position > $2 and last_position <= (select greatest(daybook.batch_end($3),
    -- The next batch that is left, where a whole range was archived or deleted: it shows the gap.
    (select last_position from daybook.log where shard = $1 and last_position > $2
      order by last_position limit 1)))
  order by last_position`;
type BatchColumns = [
  last: Cell<'daybook.log', 'last_position'>,
  count: Cell<'daybook.log', 'event_count'>,
  atUs: string,
  instance: Cell<'daybook.log', 'instance'>,
  events: Cell<'daybook.log', 'events'>,
];

/**
 * The batches of the events of a range, in order and without a gap, up to the head. The first and the last
 * batch can have events outside the range, too.
 * @throws {GapError} when a batch or a line is missing.
 * @throws {ArchivedError} when it was archived.
 */
export async function readBatches(client: pg.ClientBase, { after, upTo }: LogRange): Promise<BatchEvents[]> {
  const { rows } = await client.query<BatchColumns>({
    name: 'read_batches',
    text: READ_BATCHES,
    values: [SHARD, after, upTo],
    rowMode: 'array',
  });
  let next = after + 1;
  for (const [last, count, , , events] of rows) {
    const first = Number(last) - count + 1;
    if (first > next) await requireWhole(client, after);
    // Only the first batch may begin before the range.
    if (first > next || (first < next && next > after + 1)) throw new GapError(next);
    const lines = countLines(events);
    if (lines !== count) throw new GapError(first + Math.min(lines, count));
    next = first + count;
  }
  return rows.map(([lastPosition, count, at, instance, events]) => ({
    row: { shard: String(SHARD), lastPosition, eventCount: String(count), instance: String(instance), at },
    events,
  }));
}

/** Of what a batch has for each event, in order, the part that belongs to events of a range. */
export function inRange<T>(
  each: readonly T[],
  { row }: BatchEvents,
  { after, upTo }: LogRange,
): readonly T[] {
  const before = Number(row.lastPosition) - each.length;
  if (before >= after && before + each.length <= upTo) return each;
  return each.slice(Math.max(0, after - before), Math.max(0, upTo - before));
}

/**
 * The events of a batch that are in a range.
 * @param types the codes of those that are wanted; absent: all.
 */
export function readEvents(batch: BatchEvents, range: LogRange, types?: ReadonlySet<number>): Read[] {
  const { row, events } = batch;
  const at = dateOf(row.at);
  const instance = Number(row.instance);
  const read: Read[] = [];
  let position = Number(row.lastPosition) - Number(row.eventCount);
  for (let from = 0; from < events.length;) {
    const next = events.indexOf('\n', from);
    const to = next < 0 ? events.length : next;
    position++;
    const isWanted = position > range.after && position <= range.upTo;
    if (isWanted && (types === undefined || types.has(typeAt(events, from))))
      read.push(readPart(position, at, instance, events, from, to));
    from = to + 1;
  }
  return read;
}

const COMMA = 0x2c;
const ZERO = 0x30;

/** The code of the type of a line, which is its first field; anything for a damaged line. */
function typeAt(events: string, from: number): number {
  let code = 0;
  for (let at = from + 1; at < events.length && events.charCodeAt(at) !== COMMA; at++)
    code = code * 10 + events.charCodeAt(at) - ZERO;
  return code;
}

/**
 * Runs a query of {@link LINE_COLUMNS}.
 * @param name of the prepared statement; null for a query whose text varies.
 */
export async function queryLines(
  client: pg.ClientBase,
  name: string | null,
  text: string,
  values: unknown[],
): Promise<Read[]> {
  const query = { text, values, rowMode: 'array' as const };
  const { rows } = await client.query<LineRow>(name === null ? query : { name, ...query });
  return placeLines(rows);
}

/** The events of lines that were read as {@link LINE_COLUMNS}. */
export function placeLines(rows: readonly LineRow[]): Read[] {
  return rows.map(([position, atUs, instance, line]) =>
    readLine(Number(position), dateOf(atUs), instance, line),
  );
}

/** A time in microseconds since 1970; a `Date` has milliseconds. */
export const dateOf = (atUs: string | number): Date => new Date(Math.floor(Number(atUs) / 1_000));

/** What a line at a position came to. */
export function readLine(position: number, at: Date, instance: number, line: string): Read {
  return readPart(position, at, instance, line, 0, line.length);
}

/** One for all lines: each is read to its end before the next. */
const READER = new LineReader();

/** The same of a line that is a part of a text. */
function readPart(
  position: number,
  at: Date,
  instance: number,
  text: string,
  from: number,
  to: number,
): Read {
  try {
    READER.read(text, from, to);
    const event = decode(READER);
    const version = READER.has(AT.version) ? READER.integer(AT.version) : null;
    return placeEvent({ shard: SHARD, position, at, instance, event }, READER.cell(AT.stream), version);
  } catch (error) {
    return new UnreadableEventError(position, error, unreadRow());
  }
}

function unreadRow(): UnreadRow | null {
  const integer = (field: number): number | null => {
    const text = READER.cell(field);
    return text === null ? null : Number(text);
  };
  const type = integer(AT.type);
  if (type === null || !Number.isInteger(type)) return null;
  return {
    type,
    stream: READER.cell(AT.stream),
    version: integer(AT.version),
    account: READER.cell(AT.account),
    key: READER.cell(AT.key),
  };
}

/**
 * Adds the place of an event in its stream.
 * @throws {Error} where a control event has none, or a request's event has one.
 */
export function placeEvent(
  read: Pick<Placed, 'shard' | 'position' | 'at' | 'instance' | 'event'>,
  stream: string | null,
  version: number | null,
): Placed {
  const isInStream = stream !== null && version !== null;
  if (isInStream !== 'actor' in read.event) throw new Error(`it is in the stream ${stream ?? 'of none'}`);
  const { shard, position, at, instance, event } = read;
  return isInStream
    ? { shard, position, at, instance, event, stream, version }
    : { shard, position, at, instance, event, stream: null, version: null };
}

/** The position of the newest event; 0 in an empty log. */
export async function readHead(client: pg.ClientBase): Promise<number> {
  const result = await client.query<[Result<'daybook.head'>]>({
    name: 'read_head',
    text: 'select daybook.head($1)',
    values: [SHARD],
    rowMode: 'array',
  });
  return Number(result.rows[0]?.[0]);
}

/**
 * The first position from which the log is complete; older events are, at least in part, archived.
 */
export async function firstPosition(client: pg.ClientBase): Promise<number> {
  const query = db.selectNoFrom(({ fn }) =>
    fn<Result<'daybook.first_position'>>('daybook.first_position').as('first'),
  );
  return Number((await onlyRowOf(client, query)).first);
}

/**
 * For code that reads the log's tables by its own SQL: call it after reading and before the result is
 * committed, since a partition may leave the log between two statements.
 * @throws {ArchivedError} when the log above `after` is not whole.
 */
export async function requireWhole(client: pg.ClientBase, after: number): Promise<void> {
  const first = await firstPosition(client);
  if (first <= after + 1) return;
  const query = db
    .selectFrom('daybook.log_partition')
    .select(({ ref }) => sql<string>`${ref('manifest')}->>'file'`.as('file'))
    .where('end_position', '>', String(after + 1))
    .where('archived_at', 'is not', null)
    .where(({ not, fn }) => not(fn<Result<'daybook.is_attached'>>('daybook.is_attached', ['name'])))
    .orderBy('number');
  const files = (await rowsOf(client, query)).map(({ file }) => file);
  throw new ArchivedError(first, files);
}

/**
 * One control stream from its beginning, for a decision that is about to be made on it.
 * @throws {UnreadableEventError} at a row that is not of the vocabulary, or whose event belongs to another
 *   stream.
 */
export async function readStream<Stream extends string>(
  client: pg.ClientBase,
  stream: Stream,
): Promise<Placed<EventOfStream<Stream>>[]> {
  const events = allControl(await queryLines(client, 'read_stream', READ_STREAM, [SHARD, stream]));
  for (const { position, event } of events) {
    const own = streamOf(event);
    if (own !== stream)
      throw new UnreadableEventError(position, new Error(`it belongs to ${own}, not to ${stream}`));
  }
  return events as Placed<EventOfStream<Stream>>[];
}
