import type { Client } from 'pg';
import type { Random } from '../chaos/random.ts';
import { openCheckpoint } from '#db/tlog/checkpoint.ts';
import { parseNote } from '#db/tlog/note.ts';
import { type Attack, attempt, oneOf, type Table } from './trial.ts';
import { changeOf, type Column } from './values.ts';
import type { World } from './world.ts';

/** The tables and the key of each. The log itself is half of all, since it is most of what there is. */
const TABLES: readonly { table: Table; key: readonly string[] }[] = [
  ...Array.from({ length: 7 }, () => ({ table: 'log' as const, key: ['position'] })),
  { table: 'log_batch', key: ['shard', 'last_position'] },
  { table: 'log_batch', key: ['shard', 'last_position'] },
  { table: 'log_kept', key: ['shard', 'position'] },
  { table: 'log_partition', key: ['number'] },
  { table: 'stream_head', key: ['stream'] },
  { table: 'log_node', key: ['shard', 'level', 'number'] },
  { table: 'checkpoint', key: ['shard', 'epoch', 'size'] },
];
/** Of `daybook.install` the log's own column; the others are the installation's. */
const INSTALL = { table: 'install' as const, key: ['only_row'] };
const INSTALL_EVERY = 40;

type Row = Record<string, string | null>;

/** Changes one byte or bit of one value of one row of one table of the log. */
export async function changeByte(world: World, random: Random): Promise<Attack> {
  const { superuser } = world;
  for (;;) {
    const { table, key } = random.below(INSTALL_EVERY) === 0 ? INSTALL : oneOf(random, TABLES);
    const row = await randomRow(world, random, table);
    const column = oneOf(
      random,
      (await columnsOf(superuser, table)).filter(({ name }) => table !== 'install' || name === 'log_id'),
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
      kind: expected === null ? 'unsigned byte' : `byte of ${table}`,
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
const COVERED: Partial<Record<Table, string>> = { log: 'position <= $1', log_batch: 'last_position <= $1' };

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
    case 'log_kept':
      return column === 'position'
        ? Math.max(1, Math.min(number('position'), Number(after)))
        : number('position');
    case 'log_batch':
      return column === 'last_position'
        ? firstOfSplit(world, number('last_position') - number('event_count') + 1, Number(after))
        : number('last_position') - number('event_count') + 1;
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
    `select max(position)::float8 as position from (select position, stream from daybook.log
      union all select position, stream from daybook.log_kept) e where stream = $1`,
    [stream],
  );
  return rows[0]?.position ?? head;
}
