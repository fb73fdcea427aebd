import type pg from 'pg';
import { namesByCode } from '#db/codes.ts';
import { SHARD } from '#db/log/append.ts';
import {
  type ControlEvent,
  END_REASON_OF,
  EVENT_CODES,
  type Event,
  type EventOf,
  type EventType,
  parseEvent,
  type Placed,
  USAGE_SOURCE_OF,
} from '#db/events.ts';

/** How many rows a page holds: large enough that a round trip is a small part of reading it. */
export const PAGE_ROWS = 5000;

/** A row that the vocabulary does not know: damaged, or written by a newer version. */
export class UnreadableEventError extends Error {
  override name = 'UnreadableEventError';
  readonly position: number;
  constructor(position: number, cause: unknown) {
    super(`the event at position ${position} can't be read`, { cause });
    this.position = position;
  }
}

/** What is to be read has left the log for its archive. */
export class ArchivedError extends Error {
  override name = 'ArchivedError';
  /** From here on the log is whole. */
  readonly firstPosition: number;
  constructor(first: number, files: readonly string[]) {
    super(`the log before position ${first} is in its archive; to read it, restore ${files.join(', ')} (daybook archive restore)`);
    this.firstPosition = first;
  }
}

const TYPE_OF = namesByCode(EVENT_CODES);

/** What {@link placeRows} makes events of, in its order. */
export const COLUMNS = `position, at::text, type, instance, account, key, request, model, upstream, sse, body_bytes,
  hold_tokens, retry_count, status, end_reason, usage_source, input_tokens, cached_tokens, output_tokens,
  reasoning_tokens, attempts, first_byte_ms, duration_ms, stream, version, body, terms_position,
  hold_cost_microusd, cost_microusd, admitted_minute, price_version, refused_count, refusal`;
const READ_ALL = `select ${COLUMNS} from daybook.log where shard = $1 and position > $2 order by position limit $3`;
const READ_CONTROL = `
  (select ${COLUMNS} from daybook.log_kept where shard = $1 and position > $2 order by position limit $3)
  union all
  (select ${COLUMNS} from daybook.log
    where shard = $1 and position > greatest($2, daybook.kept_through($1)) and stream is not null order by position limit $3)
  order by position limit $3`;
const READ_SUBJECT = `select ${COLUMNS} from daybook.log
  where shard = $1 and position > $2 and position <= $3
    and (account is null or account = coalesce($4, account)) and (key is null or key = coalesce($5, key))
  order by position limit $6`;
const READ_REQUEST = `select ${COLUMNS} from daybook.log
  where shard = $1 and position between $2 and $3 and request = $4 order by position limit $5`;
const READ_CONTROL_RANGE = `select ${COLUMNS} from daybook.log
  where shard = $1 and position > $2 and position <= $3 and stream is not null order by position`;
const READ_STREAM = `
  select ${COLUMNS} from daybook.log_kept where shard = $1 and stream = $2 and stream is not null
  union all
  select ${COLUMNS} from daybook.log
    where shard = $1 and stream = $2 and stream is not null and position > daybook.kept_through($1)
  order by version`;

export type Row = [
  position: string, at: string, type: number, instance: number, account: string, key: string, request: string,
  model: string, upstream: string | null, sse: boolean, bodyBytes: number, holdTokens: string,
  retryCount: number | null, status: number, endReason: number, usageSource: number, inputTokens: number,
  cachedTokens: number, outputTokens: number, reasoningTokens: number, attempts: number,
  firstByteMs: number | null, durationMs: number, stream: string | null, version: number | null, body: string | null,
  termsPosition: string | null, holdCostMicrousd: string | null, costMicrousd: string | null,
  admittedMinute: number | null, priceVersion: number | null, refusedCount: number, refusal: string,
];

/** Which events to read: everything, or only control events (accounts, keys, …), which are few. */
export type Scope = 'all' | 'control';

/** What a row of the log came to: its event or, where it is not of the vocabulary, what says so. */
export type Read = Placed | UnreadableEventError;

/**
 * The next page of the log in order, at most `limit` events with a position above `after`.
 * @throws {UnreadableEventError} at a row that is not of the vocabulary.
 */
export async function readPage(
  client: pg.ClientBase,
  after: number,
  scope: Scope = 'all',
  limit: number = PAGE_ROWS,
): Promise<Placed[]> {
  return allReadable(await readRows(client, after, scope, limit));
}

/** The events of rows that were read. @throws {UnreadableEventError} the first that is among them. */
export function allReadable(rows: readonly Read[]): Placed[] {
  return rows.map((row) => {
    if (row instanceof UnreadableEventError) throw row;
    return row;
  });
}

/** The same page row by row, for those who can go on without the events that they can't read. */
export async function readRows(client: pg.ClientBase, after: number, scope: Scope, limit: number = PAGE_ROWS): Promise<Read[]> {
  const result = await client.query<Row>({
    name: `read_${scope}`,
    text: scope === 'all' ? READ_ALL : READ_CONTROL,
    values: [SHARD, after, limit],
    rowMode: 'array',
  });
  // What stays of an archived part are its control events; whoever wants all must not take that for all.
  if (scope === 'all' && result.rows[0] !== undefined && Number(result.rows[0][0]) !== after + 1) await requireWhole(client, after);
  return placeRows(result.rows);
}

/**
 * A part of the log as it concerns one account, or one key of it: their events, and the control
 * events of no account, such as changes of plans. Finds them by a walk over the positions above
 * `after` up to `upTo`, so that range is to be a bounded one.
 * @param subject what is null does not narrow.
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

/** The control events of a range that is not archived. @throws {UnreadableEventError} at a row that is not of the vocabulary. */
export async function readControl(client: pg.ClientBase, { after, upTo }: { after: number; upTo: number }): Promise<Placed<ControlEvent>[]> {
  const result = await client.query<Row>({ name: 'read_control_range', text: READ_CONTROL_RANGE, values: [SHARD, after, upTo], rowMode: 'array' });
  return allReadable(placeRows(result.rows)) as Placed<ControlEvent>[];
}

/** The events of one request from one position to another, which are to be near each other: what lies between is walked through. */
export async function readRequest(client: pg.ClientBase, request: string, range: { from: number; to: number }, limit: number): Promise<Read[]> {
  const values = [SHARD, range.from, range.to, request, limit];
  const result = await client.query<Row>({ name: 'read_request', text: READ_REQUEST, values, rowMode: 'array' });
  return placeRows(result.rows);
}

/** The events of rows that were read as arrays of {@link COLUMNS}. */
export function placeRows(rows: readonly Row[]): Read[] {
  // All events of a batch carry the same time, so most rows repeat the text of the row before.
  let atText = '';
  let at = new Date(0);
  return rows.map((row) => {
    if (row[1] !== atText) {
      atText = row[1];
      at = new Date(atText.replace(' ', 'T').replace(/([+-]\d\d)$/, '$1:00'));
    }
    const position = Number(row[0]);
    try {
      return { shard: SHARD, position, at, instance: row[3], stream: row[23], version: row[24], event: decode(row) };
    } catch (error) {
      return new UnreadableEventError(position, error);
    }
  });
}

/** The position of the newest event; 0 in an empty log. */
export async function readHead(client: pg.ClientBase): Promise<number> {
  const result = await client.query<[string]>({
    name: 'read_head',
    text: 'select daybook.head($1)',
    values: [SHARD],
    rowMode: 'array',
  });
  return Number(result.rows[0]?.[0]);
}

/** From this position to the head the log is whole; what is before it is, at least in part, in the archive. */
export async function firstPosition(client: pg.ClientBase): Promise<number> {
  const result = await client.query<[string]>({ text: 'select daybook.first_position()', rowMode: 'array' });
  return Number(result.rows[0]?.[0]);
}

/**
 * For those who read the log's tables by their own SQL: to be asked after reading and before anything
 * made of it is committed, since a partition may leave the log between two statements.
 * @throws {ArchivedError} when the log above `after` is not whole.
 */
export async function requireWhole(client: pg.ClientBase, after: number): Promise<void> {
  const first = await firstPosition(client);
  if (first <= after + 1) return;
  const { rows } = await client.query<{ file: string }>(
    `select manifest->>'file' as file from daybook.log_partition
      where end_position > $1 + 1 and archived_at is not null and not daybook.is_attached(name) order by number`,
    [after],
  );
  throw new ArchivedError(first, rows.map(({ file }) => file));
}

/** One control stream from its beginning, for a decision that is about to be made on it. */
export async function readStream(client: pg.ClientBase, stream: string): Promise<Placed<ControlEvent>[]> {
  const result = await client.query<Row>({ name: 'read_stream', text: READ_STREAM, values: [SHARD, stream], rowMode: 'array' });
  return allReadable(placeRows(result.rows)) as Placed<ControlEvent>[];
}

/**
 * The event of a row. Request rows come from typed columns that we wrote; bodies are text and are parsed with care.
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
      return event;
    }
    case 'request.abandoned':
      return withAdmission(row, { type, ...ending(row), hold_tokens: Number(row[11]) });
    case 'request.refused':
      return { type, request: row[6], account: row[4], key: row[5], refusal: row[32], status: row[13], refused_count: row[31] };
    default:
      return decodeControl(type, row);
  }
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
