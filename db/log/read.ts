import { sql } from 'kysely';
import type pg from 'pg';
import { SHARD } from '#db/log/append.ts';
import { SKIPPABLE_CODES_FROM } from '#db/events/codes.ts';
import { type ControlEvent, isControl, type Placed } from '#db/events/events.ts';
import { type EventOfStream, streamOf } from '#db/events/streams.ts';
import { AT, type Row, SELECT_COLUMNS } from '#db/log/columns.ts';
import { decode } from '#db/log/decode.ts';
import { db, onlyRowOf, type Result, rowsOf } from '#db/schema/query.ts';

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

const READ_ALL = `select ${SELECT_COLUMNS} from daybook.log
  where shard = $1 and position > $2 order by position limit $3`;
const READ_CONTROL = `
  (select ${SELECT_COLUMNS} from daybook.log_kept
    where shard = $1 and position > $2 order by position limit $3)
  union all
  (select ${SELECT_COLUMNS} from daybook.log
    where shard = $1 and position > greatest($2, daybook.kept_through($1)) and stream is not null
    order by position limit $3)
  order by position limit $3`;
const READ_SUBJECT = `select ${SELECT_COLUMNS} from daybook.log
  where shard = $1 and position > $2 and position <= $3
    and (account is null or account = coalesce($4, account)) and (key is null or key = coalesce($5, key))
  order by position limit $6`;
const READ_REQUEST = `select ${SELECT_COLUMNS} from daybook.log
  where shard = $1 and position between $2 and $3 and request = $4 order by position limit $5`;
const READ_CONTROL_RANGE = `select ${SELECT_COLUMNS} from daybook.log
  where shard = $1 and position > $2 and position <= $3 and stream is not null order by position`;
const READ_STREAM = `
  select ${SELECT_COLUMNS} from daybook.log_kept where shard = $1 and stream = $2 and stream is not null
  union all
  select ${SELECT_COLUMNS} from daybook.log
    where shard = $1 and stream = $2 and stream is not null and position > daybook.kept_through($1)
  order by version`;

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
  const result = await client.query<Row>({
    name: `read_${scope}`,
    text: scope === 'all' ? READ_ALL : READ_CONTROL,
    values: [SHARD, after, limit],
    rowMode: 'array',
  });
  // Only control events of an archived partition are retained, which a full read must not take for all.
  if (scope === 'all' && result.rows[0] !== undefined && Number(result.rows[0][AT.position]) !== after + 1)
    await requireWhole(client, after);
  return placeRows(result.rows);
}

/**
 * The events of one account, or of one of its keys, within a range, and the control
 * events of no account, such as changes of plans. Finds them by a walk over the positions above
 * `after` up to `upTo`, so that range is to be a bounded one.
 * @param subject null matches any account or key.
 */
export async function readSubject(
  client: pg.ClientBase,
  subject: { account: string | null; key: string | null },
  range: { after: number; upTo: number },
  limit: number,
): Promise<Read[]> {
  const result = await client.query<Row>({
    name: 'read_subject',
    text: READ_SUBJECT,
    values: [SHARD, range.after, range.upTo, subject.account, subject.key, limit],
    rowMode: 'array',
  });
  return placeRows(result.rows);
}

/**
 * The control events of a range that is not archived. @throws {UnreadableEventError} at a row that is not of
 * the vocabulary.
 */
export async function readControl(
  client: pg.ClientBase,
  { after, upTo }: { after: number; upTo: number },
): Promise<Placed<ControlEvent>[]> {
  const result = await client.query<Row>({
    name: 'read_control_range',
    text: READ_CONTROL_RANGE,
    values: [SHARD, after, upTo],
    rowMode: 'array',
  });
  return allControl(placeRows(result.rows));
}

/**
 * The events of one request from one position to another, which are to be near each other: what lies between
 * is walked through.
 */
export async function readRequest(
  client: pg.ClientBase,
  request: string,
  range: { from: number; to: number },
  limit: number,
): Promise<Read[]> {
  const values = [SHARD, range.from, range.to, request, limit];
  const result = await client.query<Row>({
    name: 'read_request',
    text: READ_REQUEST,
    values,
    rowMode: 'array',
  });
  return placeRows(result.rows);
}

/** The events of rows that were read as arrays of {@link SELECT_COLUMNS}. */
export function placeRows(rows: readonly Row[]): Read[] {
  // All events of a batch carry the same time, so most rows repeat the text of the row before.
  let atText = '';
  let at = new Date(0);
  return rows.map((row) => {
    if (row[AT.at] !== atText) {
      atText = row[AT.at];
      at = new Date(atText.replace(' ', 'T').replace(/([+-]\d\d)$/, '$1:00'));
    }
    const position = Number(row[AT.position]);
    try {
      return placeEvent(
        { shard: SHARD, position, at, instance: row[AT.instance], event: decode(row) },
        row[AT.stream],
        row[AT.version],
      );
    } catch (error) {
      return new UnreadableEventError(position, error, {
        type: row[AT.type],
        stream: row[AT.stream],
        version: row[AT.version],
        account: row[AT.account],
        key: row[AT.key],
      });
    }
  });
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
  return isInStream ? { ...read, stream, version } : { ...read, stream: null, version: null };
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
  const result = await client.query<Row>({
    name: 'read_stream',
    text: READ_STREAM,
    values: [SHARD, stream],
    rowMode: 'array',
  });
  const events = allControl(placeRows(result.rows));
  for (const { position, event } of events) {
    const own = streamOf(event);
    if (own !== stream)
      throw new UnreadableEventError(position, new Error(`it belongs to ${own}, not to ${stream}`));
  }
  return events as Placed<EventOfStream<Stream>>[];
}
