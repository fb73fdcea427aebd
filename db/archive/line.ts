import { z } from 'zod';
import type { BatchRow, LeafRow } from '#db/log/chain.ts';
import { AT_US, COLUMN_NAMES, COLUMNS } from '#db/log/columns.ts';
import type { LogBatchTable } from '#db/schema/tables.ts';

/**
 * The lines of an archive file: a header, then events and batches as JSON objects, in the order of
 * the log, each batch after its last event. Fields that are null are omitted.
 *
 * A batch can cross the border of two partitions. Its line is then in both files, and each file has the leaf
 * hashes of the rows in the other one. So each file can be verified by itself, and each row is in one file.
 */

type Kind = 'integer' | 'text' | 'uuid' | 'boolean';
const KINDS = {
  int2: 'integer',
  int4: 'integer',
  int8: 'integer',
  timestamptz: 'integer',
  bool: 'boolean',
  text: 'text',
  uuid: 'uuid',
} as const;

/** The fields of an event's line: its columns but the shard, which the header names; the time is `at_us`. */
const FIELDS: readonly (readonly [name: string, kind: Kind])[] = COLUMNS.slice(1).map(({ name, type }) => [
  name === 'at' ? 'at_us' : name,
  KINDS[type],
]);

const BATCH_COLUMNS = [
  'last_position',
  'event_count',
  'instance',
  'batch_no',
  'at_us',
  'format',
] as const satisfies readonly (keyof LogBatchTable | 'at_us')[];

const source = (name: string): string => (name === 'at_us' ? AT_US : name);

/** A field in SQL with the comma before it: null, and so nothing in `concat`, where the column is null. */
function fieldSql(name: string, kind: Kind): string {
  const label = `"${name}":`;
  if (kind === 'text') return `',${label}' || to_json(${source(name)})`;
  if (kind === 'uuid') return `',${label}"' || ${name} || '"'`;
  return `',${label}' || ${source(name)}::text`;
}

const [[FIRST_NAME], ...OTHERS] = FIELDS as [(typeof FIELDS)[number], ...(typeof FIELDS)[number][]];
const OTHER_FIELDS_SQL = OTHERS.map(([name, kind]) => fieldSql(name, kind)).join(', ');
/** The line of an event, as SQL. */
export const EVENT_SQL = `concat('{"${FIRST_NAME}":' || ${FIRST_NAME}, ${OTHER_FIELDS_SQL}, '}')`;
const BATCH_FIELDS_SQL = BATCH_COLUMNS.map((name) => `'"${name}":', ${source(name)}, ','`).join(', ');
/** The line of a batch, as SQL. */
export const BATCH_SQL = `concat('{"batch":{', ${BATCH_FIELDS_SQL},
  '"chain":"', encode(chain, 'hex'), '"}}')`;

/**
 * Puts the line of each batch behind its last event's. Postgres would have to sort all of the text
 * for that, which takes a quarter of the whole export.
 */
export function interleave(
  events: string,
  batches: readonly { last_position: string; line: string }[],
): string {
  let text = '';
  let from = 0;
  for (const { last_position: end, line } of batches) {
    // No text of an event has a line break that JSON did not escape, so this is where a line begins.
    const next = events.indexOf(`\n{"${FIRST_NAME}":${Number(end) + 1},`, from);
    const to = next < 0 ? events.length : next;
    text += `${events.slice(from, to)}\n${line}\n`;
    from = to + 1;
  }
  return from < events.length ? `${text}${events.slice(from)}\n` : text;
}

const Hash = z.string().regex(/^[0-9a-f]{64}$/);
const Position = z.int().nonnegative();

/** A link of the chain: the position of the last event that it covers, and its value in hexadecimal. */
export const Link = z.strictObject({ position: Position, chain: Hash });
export type Link = z.infer<typeof Link>;

/**
 * The first line of a file. `leaves_before` are those of its first batch's rows that are in the file before.
 */
export const Header = z.strictObject({
  archive: z.literal('daybook log 1'),
  log_id: z.uuid(),
  shard: z.int().nonnegative(),
  /** The number of its partition; null for an exported range. */
  partition: z.int().nonnegative().nullable(),
  first_position: Position,
  last_position: Position,
  chain_before: Link,
  leaves_before: z.array(Hash),
});
export type Header = z.infer<typeof Header>;

/** Stands before the last batch's line where that batch goes on in the next file. */
const LeavesAfter = z.strictObject({ leaves_after: z.array(Hash).min(1) });

const Batch = z.strictObject({
  batch: z.strictObject({ ...Object.fromEntries(BATCH_COLUMNS.map((name) => [name, z.int()])), chain: Hash }),
});

export type Line = { event: LeafRow } | { batch: BatchRow } | { leavesAfter: Buffer[] };

/** The parsed JSON of an event. Other JSON yields a row with another leaf hash. */
type Fields = Partial<Record<string, string | number | boolean>>;

const fromHex = (text: string): Buffer => Buffer.from(text, 'hex');

/**
 * Parses a line other than the header.
 * @throws {Error} when it is not in the format of this version.
 */
export function parseLine(line: string, shard: number): Line {
  const value = JSON.parse(line) as Fields;
  if ('batch' in value) return { batch: batchOf(Batch.parse(value).batch, shard) };
  if ('leaves_after' in value) return { leavesAfter: LeavesAfter.parse(value).leaves_after.map(fromHex) };
  return { event: rowOf(value, shard) };
}

function batchOf(fields: Record<string, unknown>, shard: number): BatchRow {
  const text = (name: (typeof BATCH_COLUMNS)[number]): string => String(fields[name]);
  return {
    shard: String(shard),
    lastPosition: text('last_position'),
    eventCount: text('event_count'),
    instance: text('instance'),
    batchNo: text('batch_no'),
    at: text('at_us'),
    format: text('format'),
    chain: fromHex(fields['chain'] as string),
  };
}

/** The row that a leaf hash covers, each value in PostgreSQL's text format. */
function rowOf(fields: Fields, shard: number): LeafRow {
  const row: (string | null)[] = [String(shard)];
  let found = 0;
  for (const [name] of FIELDS) {
    const value = fields[name];
    if (value !== undefined) found++;
    row.push(value === undefined ? null : value === true ? 't' : value === false ? 'f' : String(value));
  }
  if (found !== Object.keys(fields).length) throw new Error('a field that no event has');
  return row;
}

/** The index of the stream in a {@link LeafRow}, which only control events have. */
export const STREAM_AT = COLUMN_NAMES.indexOf('stream');

const TYPES: Record<Kind, string> = { integer: 'bigint', text: 'text', uuid: 'uuid', boolean: 'boolean' };
const NAMES = COLUMN_NAMES.slice(1).join(', ');
const VALUES = FIELDS.map(([name]) =>
  name === 'at_us' ? `timestamptz 'epoch' + at_us * interval '1 microsecond'` : name,
).join(', ');

/** Inserts events into a table like the log. Parameters: the shard, and a JSON array of their lines. */
export const insertSql = (table: string): string => `insert into ${table} (shard, ${NAMES})
  select $1::smallint, ${VALUES}
    from json_to_recordset($2::json)
      as line(${FIELDS.map(([name, kind]) => `${name} ${TYPES[kind]}`).join(', ')})`;
