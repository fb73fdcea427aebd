import { setImmediate } from 'node:timers/promises';
import { sql } from 'kysely';
import { type ClientBase, DatabaseError } from 'pg';
import { readCopyPage } from '#db/audit/source/copy-page.ts';
import { type EventRow, rowOfText } from '#db/audit/source/event-row.ts';
import type { BatchRow } from '#db/log/chain.ts';
import { AT_US, COLUMN_NAMES, leafColumns, typeOf } from '#db/log/columns.ts';
import type { CheckpointRow } from '#db/audit/verify/checkpoints.ts';
import { SHARD } from '#db/log/append.ts';
import { PAGE_POSITIONS } from '#db/audit/bounds.ts';
import { db, onlyRowOf, type Placeholders, prepare, rowsOf } from '#db/schema/query.ts';
import type { CheckpointTable, LogBatchTable } from '#db/schema/tables.ts';

/** Position 0 has no event, but the table allows one. */
const BEFORE_FIRST = -1;
/** Below every bigint. Only partition bounds reject positions below zero. */
export const BELOW_ALL_POSITIONS = '-9223372036854775808';

/**
 * A page of a log: the events above one position up to another, with the batches and checkpoints that end
 * among them.
 */
export type Page = {
  after: number;
  upTo: number;
  rows: EventRow[];
  batches: BatchRow[];
  checkpoints: CheckpointRow[];
  unreadable: { position: number; problem: string }[];
};

/** A table with the columns of the log. */
type LogCopy = 'daybook.log' | 'daybook.log_kept';

/** The columns that can have an empty text. */
const TEXT_COLUMNS = COLUMN_NAMES.filter((name) => typeOf(name) === 'text');
// An infinite time must not fail the full page.
const TEXT = `row(${leafColumns(`case when isfinite(at) then ${AT_US} end`)})::text`;
// Times are converted here: doing it in Postgres costs a tenth of the query, and all rows of a batch have the
// same. The last column is true if a text is empty, since COPY writes an empty text and null alike.
const HAS_EMPTY_TEXT = TEXT_COLUMNS.map((name) => `${name} = ''`).join(' or ');
const COPIED = `${leafColumns('at')}, nullif(${HAS_EMPTY_TEXT}, false)`;
// COPY takes no parameters. These are numbers from this module.
const copyOf = (table: LogCopy, after: number, upTo: number): string =>
  `copy (select ${COPIED} from ${table} where shard = ${SHARD} and position > ${after}
    and position <= ${upTo} order by position) to stdout with (delimiter ',', null '')`;

const READ_TEXT = sql<string>`${sql.raw(TEXT)}`;

type Stretch = { after: string; upTo: string };

/** Retained control events, at most `limit` of them. */
export const readRetainedTexts = prepare(
  'verify_retained',
  ({ after, upTo, limit }: Placeholders<Stretch & { limit: number }>) =>
    db
      .selectFrom('daybook.log_kept')
      .select(READ_TEXT.as('text'))
      .where('shard', '=', SHARD)
      .where('position', '>', after)
      .where('position', '<=', upTo)
      .orderBy('position')
      .limit(limit),
);

/** Reads rows of the log, or of a table with the same columns. */
export async function readRowTexts(
  client: ClientBase,
  table: LogCopy,
  after: number,
  upTo: number,
): Promise<EventRow[]> {
  const rows = await readCopyPage(client, copyOf(table, after, upTo));
  if (rows !== null) return rows;
  const single = db
    .selectFrom(table)
    .select(READ_TEXT.as('text'))
    .where('shard', '=', SHARD)
    .where('position', '>', String(after))
    .where('position', '<=', String(upTo))
    .orderBy('position');
  return (await rowsOf(client, single)).map(({ text }) => rowOfText(text));
}

/** A column as text, and an empty one for null. */
const textOf = (column: keyof LogBatchTable) => sql<string>`coalesce(${sql.ref(column)}::text, '')`;
// An infinite time must not fail the full page.
const BATCH_AT = sql<string>`coalesce(case when isfinite(at) then (${sql.raw(AT_US)})::text end, '')`;
const selectBatches = prepare('verify_batches', ({ after, upTo }: Placeholders<Stretch>) =>
  db
    .selectFrom('daybook.log_batch')
    .select([
      textOf('shard').as('shard'),
      textOf('last_position').as('lastPosition'),
      textOf('event_count').as('eventCount'),
      textOf('instance').as('instance'),
      textOf('batch_no').as('batchNo'),
      BATCH_AT.as('at'),
      textOf('format').as('format'),
    ])
    .select(({ fn }) => fn.coalesce('chain', sql<Buffer>`''::bytea`).as('chain'))
    .where('shard', '=', SHARD)
    .where('last_position', '>', after)
    .where('last_position', '<=', upTo)
    .orderBy('last_position'),
);

export function readBatches(client: ClientBase, after: number | string, upTo: number): Promise<BatchRow[]> {
  return selectBatches(client, { after: String(after), upTo: String(upTo) });
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
const selectCheckpoints = prepare('verify_checkpoints', ({ after, upTo }: Placeholders<Stretch>) =>
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

/** Finds unreadable rows by bisection. */
async function readAround(client: ClientBase, after: number, upTo: number, page: Page): Promise<void> {
  try {
    page.rows.push(...(await readRowTexts(client, 'daybook.log', after, upTo)));
  } catch (error) {
    if (!isDamage(error)) throw error;
    if (upTo - after <= 1) {
      page.unreadable.push({ position: upTo, problem: `can't be read: ${(error as Error).message}` });
      return;
    }
    const middle = Math.floor((Math.max(after, 0) + upTo) / 2);
    await readAround(client, after, middle, page);
    await readAround(client, middle, upTo, page);
  }
}

async function readPage(client: ClientBase, after: number, upTo: number): Promise<Page> {
  const page: Page = { after, upTo, rows: [], batches: [], checkpoints: [], unreadable: [] };
  const above = after === BEFORE_FIRST ? BELOW_ALL_POSITIONS : after;
  const [, batches, checkpoints] = await Promise.all([
    readAround(client, after, upTo, page),
    readBatches(client, above, upTo),
    readCheckpointRows(client, above, upTo),
  ]);
  return { ...page, batches, checkpoints };
}

/**
 * The events and batches above one position up to another, page by page. Postgres reads the next page while
 * one is verified.
 */
export async function* pagesOf(client: ClientBase, after: number, upTo: number): AsyncGenerator<Page> {
  let next =
    after < upTo
      ? readPage(client, after === 0 ? BEFORE_FIRST : after, Math.min(after + PAGE_POSITIONS, upTo))
      : null;
  for (;;) {
    if (next === null) return;
    const page: Page = await next;
    let at = page.upTo;
    if (page.rows.length === 0 && page.batches.length === 0 && page.unreadable.length === 0)
      at = (await nextPosition(client, at, upTo)) - 1;
    next = at < upTo ? readPage(client, at, Math.min(at + PAGE_POSITIONS, upTo)) : null;
    next?.catch(() => undefined);
    // pg sends the query on the next turn of the event loop, before the page is hashed.
    await setImmediate();
    yield page;
  }
}

/** The next position with a row, to skip a long gap. */
async function nextPosition(client: ClientBase, after: number, upTo: number): Promise<number> {
  const query = db.selectNoFrom(({ selectFrom, fn, cast, val }) => {
    const event = selectFrom('daybook.log')
      .select(({ fn: inner }) => inner.min('position').as('next'))
      .where('shard', '=', SHARD)
      .where('position', '>', String(after));
    const batch = selectFrom('daybook.log_batch')
      .select(({ fn: inner }) => inner.min('last_position').as('next'))
      .where('shard', '=', SHARD)
      .where('last_position', '>', String(after));
    return fn<string>('least', [event, batch, cast(val(upTo), 'bigint')]).as('next');
  });
  return Number((await onlyRowOf(client, query)).next);
}
