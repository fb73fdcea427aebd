import { setImmediate } from 'node:timers/promises';
import { sql } from 'kysely';
import { type ClientBase, DatabaseError } from 'pg';
import type { BatchRow } from '#db/log/chain.ts';
import { AT_US } from '#db/log/columns.ts';
import { type LogRow, pairRows, type StoredBatch } from '#db/audit/verify/batches.ts';
import type { CheckpointRow } from '#db/audit/verify/checkpoints.ts';
import { SHARD } from '#db/log/append.ts';
import { PAGE_POSITIONS } from '#db/audit/bounds.ts';
import { type Cell, db, onlyRowOf, type Placeholders, prepare } from '#db/schema/query.ts';
import type { CheckpointTable } from '#db/schema/tables.ts';

/** Position 0 has no event, but the table allows one. */
const BEFORE_FIRST = -1;
/** Below every bigint. Only partition bounds reject positions below zero. */
export const BELOW_ALL_POSITIONS = '-9223372036854775808';

/** A page of a log: the batches that end above one position up to another, and checkpoints of such sizes. */
export type Page = { after: number; upTo: number; batches: StoredBatch[]; checkpoints: CheckpointRow[] };

// One text each, since every column costs both sides. No null and no infinite time fails a full page.
const atOf = (alias: string): string =>
  `case when isfinite(${alias}.at) then ${AT_US.replace(/\bat\b/, `${alias}.at`)} end`;
const OF_BATCH = `row(b.last_position, b.event_count, b.instance, ${atOf('b')},
  b.shard, b.batch_no, b.format)::text`;
const OF_LOG = `row(l.last_position, l.event_count, l.instance, ${atOf('l')})::text`;
const inRange = (table: string): string =>
  `select * from daybook.${table} where shard = $1 and last_position > $2 and last_position <= $3`;
// The row of the log states the same as that of the batch, unless one of them was changed.
const READ_STORED = `select coalesce(l.events, ''), coalesce(b.chain, ''),
    case when b is null then '' else ${OF_BATCH} end,
    case when l is null then '' when (l.event_count, l.instance, l.at) is not distinct from
      (b.event_count, b.instance, b.at) and isfinite(l.at) then null else ${OF_LOG} end
  from (${inRange('log')}) l full join (${inRange('log_batch')}) b using (last_position)
  order by last_position`;
const READ_BATCHES = `select coalesce(b.chain, ''), ${OF_BATCH} from (${inRange('log_batch')}) b
  order by b.last_position`;
type BatchColumns = [chain: Cell<'daybook.log_batch', 'chain'>, ofBatch: string];
type StoredColumns = [events: Cell<'daybook.log', 'events'>, ...BatchColumns, ofLog: string | null];

type Range = { after: number | string; upTo: number };

async function readStored(client: ClientBase, { after, upTo }: Range): Promise<StoredBatch[]> {
  const values = [SHARD, after, upTo];
  const query = { name: 'verify_log', text: READ_STORED, values, rowMode: 'array' as const };
  const { rows } = await client.query<StoredColumns>(query);
  const logs: LogRow[] = [];
  const batches: BatchRow[] = [];
  for (const [events, chain, ofBatch, ofLog] of rows) {
    if (ofBatch !== '') batches.push(batchRowOf([chain, ofBatch]));
    if (ofLog !== '') logs.push(logRowOf(ofLog ?? ofBatch, events));
  }
  return pairRows(logs, batches);
}

/** The values of a text of integers, with an empty one for null. */
const valuesOf = (text: string): string[] => text.slice(1, -1).split(',');

function logRowOf(text: string, events: string): LogRow {
  const [lastPosition = '', eventCount = '', instance = '', at = ''] = valuesOf(text);
  return { lastPosition, eventCount, instance, at, events };
}

function batchRowOf([chain, text]: BatchColumns): BatchRow {
  const values = valuesOf(text);
  const [lastPosition = '', eventCount = '', instance = '', at = '', shard = '', batchNo = '', format = ''] =
    values;
  return { shard, lastPosition, eventCount, instance, batchNo, at, format, chain };
}

/** The rows of batches that end above one position up to another. */
export async function readBatchRows(client: ClientBase, { after, upTo }: Range): Promise<BatchRow[]> {
  const values = [SHARD, after, upTo];
  const query = { name: 'verify_batches', text: READ_BATCHES, values, rowMode: 'array' as const };
  const { rows } = await client.query<BatchColumns>(query);
  return rows.map(batchRowOf);
}

const CHECKPOINT_COLUMNS = [
  'epoch',
  'size',
  'note',
  'published_at',
] as const satisfies readonly (keyof CheckpointTable & keyof CheckpointRow)[];
/** A row of `daybook.checkpoint` as a JSON expression. */
export const CHECKPOINT_JSON = sql<CheckpointRow>`json_build_object(${sql.raw(
  CHECKPOINT_COLUMNS.map((name) => `'${name}', ${name}`).join(', '),
)})`;
const selectCheckpoints = prepare(
  'verify_checkpoints',
  ({ after, upTo }: Placeholders<{ after: string; upTo: string }>) =>
    db
      .selectFrom('daybook.checkpoint')
      .select(CHECKPOINT_JSON.as('row'))
      .where('shard', '=', SHARD)
      .where('size', '>', after)
      .where('size', '<=', upTo)
      .orderBy('size')
      .orderBy('epoch'),
);

/** The stored checkpoints larger than one size up to another. */
export async function readCheckpointRows(
  client: ClientBase,
  after: number | string,
  upTo: number,
): Promise<CheckpointRow[]> {
  const rows = await selectCheckpoints(client, { after: String(after), upTo: String(upTo) });
  return rows.map(({ row }) => row);
}

/** SQLSTATE classes XX and 22: corrupted pages, and invalid values. */
const isDamage = (error: unknown): boolean =>
  error instanceof DatabaseError && /^(XX|22)/.test(error.code ?? '');

/** Reads batches; those with an unreadable row of the log are found by bisection. */
async function readAround(client: ClientBase, range: Range): Promise<StoredBatch[]> {
  try {
    return await readStored(client, range);
  } catch (error) {
    if (!isDamage(error)) throw error;
    const after = Math.max(Number(range.after), BEFORE_FIRST);
    const { upTo } = range;
    if (upTo - after > 1) {
      const middle = Math.floor((after + upTo) / 2);
      const lower = await readAround(client, { after: range.after, upTo: middle });
      return [...lower, ...(await readAround(client, { after: middle, upTo }))];
    }
    const unreadable = `can't be read: ${(error as Error).message}`;
    const rows = await readBatchRows(client, range);
    const row = rows.find(({ lastPosition }) => Number(lastPosition) === upTo) ?? null;
    const others = rows.filter((each) => each !== row);
    return [...pairRows([], others), { last: upTo, row, log: null, unreadable }];
  }
}

async function readPage(client: ClientBase, after: number, upTo: number): Promise<Page> {
  const above = after === BEFORE_FIRST ? BELOW_ALL_POSITIONS : after;
  const [batches, checkpoints] = await Promise.all([
    readAround(client, { after: above, upTo }),
    readCheckpointRows(client, above, upTo),
  ]);
  return { after, upTo, batches, checkpoints };
}

/**
 * The batches that end above one position up to another, page by page. Postgres reads the next page while one
 * is verified.
 */
export async function* pagesOf(client: ClientBase, after: number, upTo: number): AsyncGenerator<Page> {
  let next =
    after < upTo
      ? readPage(client, after === 0 ? BEFORE_FIRST : after, Math.min(after + PAGE_POSITIONS, upTo))
      : null;
  for (;;) {
    if (next === null) return;
    const page: Page = await next;
    const at = page.batches.length === 0 ? (await nextPosition(client, page.upTo, upTo)) - 1 : page.upTo;
    next = at < upTo ? readPage(client, at, Math.min(at + PAGE_POSITIONS, upTo)) : null;
    next?.catch(() => undefined);
    // pg sends the query on the next turn of the event loop, before the page is hashed.
    await setImmediate();
    yield page;
  }
}

/** The next position where a batch ends, to skip a long gap. */
async function nextPosition(client: ClientBase, after: number, upTo: number): Promise<number> {
  const query = db.selectNoFrom(({ selectFrom, fn, cast, val }) => {
    const nextIn = (table: 'daybook.log' | 'daybook.log_batch') =>
      selectFrom(table)
        .select(({ fn: inner }) => inner.min('last_position').as('next'))
        .where('shard', '=', SHARD)
        .where('last_position', '>', String(after));
    const ends = [nextIn('daybook.log'), nextIn('daybook.log_batch')];
    return fn<string>('least', [...ends, cast(val(upTo), 'bigint')]).as('next');
  });
  return Number((await onlyRowOf(client, query)).next);
}
