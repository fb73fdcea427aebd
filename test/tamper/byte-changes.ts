import type { Client } from 'pg';
import type { Random } from '../chaos/random.ts';
import { openCheckpoint } from '#db/tlog/checkpoint.ts';
import { parseNote } from '#db/tlog/note.ts';
import { batchOf, linesOf, putLines } from './batches.ts';
import { RESERVED_NAME } from './reserved-names.ts';
import { type Attack, attempt, between, oneOf, type Table } from './trial.ts';
import { changeOf, type Column } from './values.ts';
import type { World } from './world.ts';

/** The tables beside the events, and the key of each. */
const TABLES: readonly { table: Table; key: readonly string[] }[] = [
  { table: 'log', key: ['shard', 'last_position'] },
  { table: 'log_batch', key: ['shard', 'last_position'] },
  { table: 'log_batch', key: ['shard', 'last_position'] },
  { table: 'control_event', key: ['shard', 'position'] },
  { table: 'correction', key: ['position'] },
  { table: 'log_partition', key: ['number'] },
  { table: 'stream_head', key: ['stream'] },
  { table: 'log_node', key: ['shard', 'level', 'number'] },
  { table: 'checkpoint', key: ['shard', 'epoch', 'size'] },
];
/** Of `daybook.install` the log's own column; the others are the installation's. */
const INSTALL = { table: 'install' as const, key: ['only_row'] };
const INSTALL_EVERY = 40;

type Row = Record<string, string | null>;

/**
 * Changes one byte or bit of one value of one row of one table of the log; half of the time of one of the
 * events, which are most of what there is.
 */
export function changeByte(world: World, random: Random): Promise<Attack> {
  return random.below(2) === 0 ? changeEvent(world, random) : changeRow(world, random);
}

/** The fields of an event are changed as values of their types, and the text of a batch byte by byte. */
const TEXT_EVERY = 3;

async function changeEvent(world: World, random: Random): Promise<Attack> {
  const { superuser, first, covered } = world;
  for (;;) {
    const position = between(random, first, covered);
    const batch = await batchOf(world, position);
    const before = await linesOf(world, batch);
    if (random.below(TEXT_EVERY) === 0) {
      const { index, changed, what } = changeOfText(random, before.join('\n'));
      await superuser.query('update daybook.log set events = $1 where last_position = $2', [
        changed,
        batch.to,
      ]);
      const line = changed.slice(0, index).split('\n').length - 1;
      return {
        kind: 'byte of events',
        what: `${what} of the events up to ${batch.to}`,
        // Where a line break became another character, two lines are one.
        expected: batch.from + line,
        table: 'log',
      };
    }
    const column = oneOf(random, await columnsOf(superuser, 'event_fields'));
    const line = before[position - batch.from] as string;
    const { rows } = await superuser.query<{ value: string | null }>(
      `select (($1::daybook.event_fields).${column.name})::text as value`,
      [line],
    );
    const value = rows[0]?.value ?? null;
    const { sql, what } = changeOf(random, column, value);
    const changed = await changedLine(superuser, line, column, sql, value);
    if (changed === null || changed === line) continue;
    await putLines(world, batch, before.with(position - batch.from, changed));
    return {
      kind: 'byte of log',
      what: `${what} of the event at ${position}`,
      expected: position,
      table: 'log',
    };
  }
}

/** A line with another value of a field; null where its type does not accept that. */
async function changedLine(
  superuser: Client,
  line: string,
  { name }: Column,
  sql: string,
  value: string | null,
): Promise<string | null> {
  await superuser.query('savepoint changed');
  try {
    const { rows } = await superuser.query<{ line: string }>(
      `select jsonb_populate_record($2::daybook.event_fields,
        jsonb_build_object('${name}', ${sql.replaceAll('$1', '$1::text')}))::text as line`,
      [value, line],
    );
    return rows[0]?.line ?? null;
  } catch {
    await superuser.query('rollback to changed');
    return null;
  }
}

/** Another printable character at a random place of a text. */
function changeOfText(random: Random, text: string): { index: number; changed: string; what: string } {
  const index = random.below(text.length);
  for (;;) {
    const character = String.fromCharCode(between(random, 0x20, 0x7e));
    if (character === text[index]) continue;
    return {
      index,
      changed: text.slice(0, index) + character + text.slice(index + 1),
      what: `byte ${index} from ${JSON.stringify(text[index])} to ${JSON.stringify(character)}`,
    };
  }
}

async function changeRow(world: World, random: Random): Promise<Attack> {
  const { superuser } = world;
  for (;;) {
    const { table, key } = random.below(INSTALL_EVERY) === 0 ? INSTALL : oneOf(random, TABLES);
    const row = await randomRow(world, random, table);
    const column = oneOf(
      random,
      (await columnsOf(superuser, table)).filter(({ name }) =>
        table === 'install' ? name === 'log_id' : table !== 'log' || name !== 'events',
      ),
    );
    const before = row[column.name] ?? null;
    const { sql, what } = changeOf(random, column, before);
    const where = key.map((name, index) => `${name} = $${index + 2}`).join(' and ');
    const text = `update daybook.${table} set ${column.name} = ${sql.replaceAll('$1', '$1::text')}
      where ${where} and ${column.name}::text is distinct from (${sql.replaceAll('$1', '$1::text')})::text`;
    const values = [before, ...key.map((name) => row[name])];
    // A value that the type, a constraint or a partition does not accept is not a change that an attacker
    // could make.
    if ((await attempt(superuser, text, values)) !== 1) continue;
    const after = await superuser.query<{ value: string | null }>(
      `select (${sql.replaceAll('$1', '$1::text')})::text as value`,
      [before],
    );
    const value = after.rows[0]?.value ?? null;
    const expected = await expectedOf(world, table, column.name, row, value);
    const at = key.map((name) => row[name]).join(', ');
    return {
      kind: expected === null ? 'unsigned byte' : `byte of ${table === 'log' ? 'rows of log' : table}`,
      what: `${what} in the row ${at} of ${table}`,
      expected,
      table,
      ...orElse(table, column.name, row, value),
    };
  }
}

const columnsCache = new Map<string, Column[]>();
async function columnsOf(client: Client, table: string): Promise<Column[]> {
  const known = columnsCache.get(table);
  if (known) return known;
  const { rows } = await client.query<Column>(
    `select attname as name, format_type(atttypid, null) as type from pg_attribute
      where attrelid = $1::regclass and attnum > 0 and not attisdropped and attgenerated = ''`,
    [`daybook.${table}`],
  );
  columnsCache.set(table, rows);
  return rows;
}

/** Rows behind the newest checkpoint are those of another question. */
const COVERED: Partial<Record<Table, string>> = {
  log: 'last_position <= $1',
  log_batch: 'last_position <= $1',
};

async function randomRow({ superuser, covered }: World, random: Random, table: Table): Promise<Row> {
  const condition = COVERED[table] ?? '$1::bigint is not null';
  const { rows } = await superuser.query<{ count: number }>(
    `select count(*)::integer as count from daybook.${table} where ${condition}`,
    [covered],
  );
  const columns = (await columnsOf(superuser, table))
    .map(({ name }) => `${name}::text as ${name}`)
    .join(', ');
  const found = await superuser.query<Row>(
    `select ${columns} from daybook.${table} where ${condition}
      order by ${table === 'stream_head' ? 'stream' : '2, 1'} offset $2 limit 1`,
    [covered, random.below(rows[0]?.count ?? 1)],
  );
  return found.rows[0] as Row;
}

/**
 * Columns that no signature covers, such as times recorded by the writer itself.
 */
const UNATTESTED: Partial<Record<Table, readonly string[]>> = {
  log_partition: ['made_at', 'restored_at', 'archived_at'],
  checkpoint: ['published_at'],
};

/**
 * Where a row beside the log has only its own word for its place, that word counts as well; and a border is
 * of two partitions.
 */
function orElse(table: Table, column: string, row: Row, after: string | null): { orElse?: number } {
  if (table === 'log' && column === 'last_position') return { orElse: firstOf(row) };
  if ((table === 'control_event' || table === 'correction') && column === 'position')
    return { orElse: Number(row['position']) };
  if (
    (table === 'checkpoint' && column === 'size') ||
    (table === 'log_partition' && column === 'first_position')
  )
    return { orElse: Number(after) };
  return table === 'log_partition' && column === 'end_position'
    ? { orElse: Number(row['end_position']) }
    : {};
}

/** The expected first invalid position; null if nothing that is signed was changed. */
async function expectedOf(
  world: World,
  table: Table,
  column: string,
  row: Row,
  after: string | null,
): Promise<number | null> {
  if (UNATTESTED[table]?.includes(column) === true && row[column] !== null && after !== null) return null;
  if (table === 'log_partition' && column === 'restored_at') return null;
  const number = (name: string): number => Number(row[name]);
  switch (table) {
    case 'log':
      return column === 'last_position'
        ? Math.max(0, Math.min(firstOf(row), Number(after) - number('event_count') + 1))
        : firstOf(row);
    case 'control_event':
    case 'correction':
      return column === 'position' ? Math.min(number('position'), Number(after)) : number('position');
    case 'log_batch':
      return column === 'last_position' ? firstOfSplit(world, firstOf(row), Number(after)) : firstOf(row);
    case 'log_partition':
      return isMomentInManifest(column, row, after) ? null : Math.max(1, number('first_position'));
    case 'stream_head':
      return positionOfStream(world, row['stream'] as string);
    case 'log_node':
      return (
        Math.min(number('number'), column === 'number' ? Number(after) : Infinity) * 256 ** number('level') +
        1
      );
    case 'checkpoint':
      return column === 'note' && isStillSigned(world, row['note'] as string, after as string)
        ? null
        : number('size');
    case 'install':
      return 1;
  }
}

/** The first position of a batch's row. */
const firstOf = (row: Row): number => Number(row['last_position']) - Number(row['event_count']) + 1;

/** A batch's row that says that it ends somewhere in another batch breaks that one, where it comes first. */
async function firstOfSplit({ superuser }: World, own: number, elsewhere: number): Promise<number> {
  if (elsewhere >= own) return own;
  const { rows } = await superuser.query<{ first: number }>(
    `select (last_position - event_count + 1)::float8 as first from daybook.log_batch
      where last_position > $1 order by last_position limit 1`,
    [elsewhere],
  );
  return Math.min(own, Math.max(1, rows[0]?.first ?? own));
}

/** The time of a file's creation can't be verified. */
function isMomentInManifest(column: string, row: Row, after: string | null): boolean {
  if (column !== 'manifest' || after === null || row['manifest'] === null) return false;
  const { made_at: _before, ...before } = JSON.parse(row['manifest'] as string) as Record<string, unknown>;
  const { made_at, ...rest } = JSON.parse(after) as Record<string, unknown>;
  return made_at !== undefined && JSON.stringify(before) === JSON.stringify(rest);
}

/** Removing one of two signatures, or adding an unknown one, leaves the note signed. */
function isStillSigned({ key }: World, before: string, after: string): boolean {
  try {
    openCheckpoint(after, [key]);
    return parseNote(before).text === parseNote(after).text;
  } catch {
    return false;
  }
}

/** The last event of a stream; for a name that is taken, the event that took it. */
async function positionOfStream({ superuser, head }: World, stream: string): Promise<number> {
  const { rows } = await superuser.query<{ position: number | null }>(
    `select max(position)::float8 as position from daybook.control_event
      where stream = $1 or $1 = ${RESERVED_NAME}`,
    [stream],
  );
  return rows[0]?.position ?? head;
}
