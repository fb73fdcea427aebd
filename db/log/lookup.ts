import { type Expression, sql } from 'kysely';
import type pg from 'pg';
import { EVENT_CODES, type EventType } from '#db/events/events.ts';
import { SHARD } from '#db/log/append.ts';
import { LINE_COLUMNS, type LineRow, placeLines, queryLines, type Read } from '#db/log/read.ts';
import { type Cell, db, type Placeholders, prepare, rowOf } from '#db/schema/query.ts';

/**
 * Looking through parts of the log for events that fit a filter. Only the log's positions have an
 * index, so each look is at a stretch of a bounded length.
 */

/** A filter of events; an absent field matches all. */
export type EventFilter = {
  types?: readonly EventType[];
  account?: string;
  key?: string;
  request?: string;
  /** Events about a member and their sessions, and those that they have caused. */
  member?: string;
};

/** The positions above `after` up to `upTo`. */
export type Stretch = { after: number; upTo: number };

/** Whether rows come from the end of a stretch or from its beginning. */
export type Direction = 'newest' | 'oldest';

/**
 * The conditions of a filter on a line. The fields of type, request, account and key are the first of a line
 * and never quoted.
 */
function conditionsOf({ types, account, key, request, member }: EventFilter, values: unknown[]): string {
  const add = (value: unknown): string => `$${values.push(value)}`;
  const field = (number: number): string => `split_part(line, ',', ${number})`;
  const conditions = ['true'];
  if (types !== undefined)
    conditions.push(`${field(1)} = any(${add(types.map((type) => `(${EVENT_CODES[type]}`))}::text[])`);
  if (request !== undefined) conditions.push(`${field(2)} = ${add(request)}`);
  if (account !== undefined) conditions.push(`${field(3)} = ${add(account)}`);
  if (key !== undefined) conditions.push(`${field(4)} = ${add(key)}`);
  if (member !== undefined) {
    // Bodies are our own JSON, without blanks, in a field whose quotation marks are doubled.
    const about = [`""member"":""${member}""`, `""actor"":""member/${member}""`].map(
      (part) => `strpos(line, ${add(part)}) > 0`,
    );
    conditions.push(`(${about.join(' or ')})`);
  }
  return conditions.join(' and ');
}

const ORDER = { newest: 'order by position desc', oldest: 'order by position' } as const;
/** The same order of `daybook.lines`, in which a query stops at its limit. */
const ORDER_OF_LINES = {
  newest: 'order by last_position desc, line_number desc',
  oldest: 'order by last_position, line_number',
} as const;

/**
 * Events of a stretch that is not archived, at most `limit` of them. All of the stretch may be walked over.
 */
export async function lookThrough(
  client: pg.ClientBase,
  filter: EventFilter,
  { after, upTo }: Stretch,
  direction: Direction,
  limit: number,
): Promise<Read[]> {
  const values: unknown[] = [after, upTo];
  const conditions = conditionsOf(filter, values);
  const text = `select ${LINE_COLUMNS} from daybook.lines($1, $2) where ${conditions}
    ${ORDER_OF_LINES[direction]} limit $${values.push(limit)}`;
  return queryLines(client, null, text, values);
}

/** What a look at control events came to: those that fit, and the last position that was looked at. */
export type ControlLook = { rows: Read[]; lookedTo: number };

/**
 * Control events of a stretch, archived ones included: at most `limit` of those that fit, among at
 * most `lookMax` that are looked at. Those of one key are found by its stream.
 */
export async function lookThroughControl(
  client: pg.ClientBase,
  filter: EventFilter,
  { after, upTo }: Stretch,
  direction: Direction,
  { limit, lookMax }: { limit: number; lookMax: number },
): Promise<ControlLook> {
  const values: unknown[] = [SHARD, after, upTo];
  const conditions = conditionsOf(filter, values);
  const look = `$${values.push(lookMax)}`;
  const stream = filter.key === undefined ? '' : `and stream = $${values.push(`key/${filter.key}`)}`;
  const text = `with looked as materialized (
      select ${LINE_COLUMNS} from daybook.control_event
        where shard = $1 and position > $2 and position <= $3 ${stream}
        ${ORDER[direction]} limit ${look})
    select found.*, looked_at.count, looked_at.last
      from (select count(*), ${direction === 'newest' ? 'min' : 'max'}(position) as last
        from looked) looked_at
      left join lateral (select * from looked where ${conditions}
        ${ORDER[direction]} limit $${values.push(limit)}) found on true`;
  type Looked = [
    ...(LineRow | [null, null, null, null]),
    count: string,
    last: Cell<'daybook.control_event', 'position'> | null,
  ];
  const { rows } = await client.query<Looked>({ text, values, rowMode: 'array' });
  const found = placeLines(rows.flatMap((row) => (row[0] === null ? [] : [row.slice(0, 4) as LineRow])));
  const [count, last] = (rows[0] as Looked).slice(-2) as [string, string | null];
  if (found.length === limit) return { rows: found, lookedTo: (found.at(-1) as Read).position };
  const end = direction === 'newest' ? after + 1 : upTo;
  return { rows: found, lookedTo: Number(count) === lookMax ? Number(last) : end };
}

/** The batch of the event at a position; none if the log ends before it. Select its columns. */
export const batchOf = (position: number | Expression<string>) =>
  db
    .selectFrom('daybook.log_batch')
    .where('shard', '=', SHARD)
    .where('last_position', '>=', typeof position === 'number' ? String(position) : position)
    .orderBy('last_position')
    .limit(1);

/** The age in milliseconds of the oldest event above a position; 0 if no event is newer. */
export async function readWaitingMs(client: pg.ClientBase, position: number): Promise<number> {
  const age = sql<number>`extract(epoch from clock_timestamp() - at)::float8 * 1000`.as('age_ms');
  const row = await rowOf(client, batchOf(position + 1).select(age), 'waiting_ms');
  return Math.max(0, Math.round(row?.age_ms ?? 0));
}

const readBatchAt = prepare(
  'batch_at',
  ({ position, time }: Placeholders<{ position: string; time: Date }>) =>
    batchOf(position).select(({ eb }) => ['last_position', eb('at', '<', time).as('is_before')]),
);

/**
 * The first position whose event is of this time or later; behind the head if there are no such
 * events. Times never decrease along the log, so it takes as many small reads as the log's length has binary
 * digits.
 */
export async function positionAt(client: pg.ClientBase, time: Date, head: number): Promise<number> {
  let from = 1;
  let to = head + 1;
  while (from < to) {
    const middle = Math.floor((from + to) / 2);
    const [batch] = await readBatchAt(client, { position: String(middle), time });
    if (batch?.is_before === true) from = Number(batch.last_position) + 1;
    else to = middle;
  }
  return from;
}
