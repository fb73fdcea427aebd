import { setImmediate } from 'node:timers/promises';
import { type ClientBase, DatabaseError } from 'pg';
import { readCopyPage } from '#db/audit/source/copy-page.ts';
import { type EventRow, rowOfText } from '#db/audit/source/event-row.ts';
import type { BatchRow } from '#db/log/chain.ts';
import { AT_US, COLUMN_NAMES, leafColumns, typeOf } from '#db/log/columns.ts';
import type { CheckpointRow } from '#db/audit/verify/checkpoints.ts';
import { SHARD } from '#db/log/append.ts';
import { PAGE_POSITIONS } from '#db/audit/bounds.ts';

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

/** The columns that can have an empty text. */
const TEXT_COLUMNS = COLUMN_NAMES.filter((name) => typeOf(name) === 'text');
// An infinite time must not fail the full page.
const TEXT = `row(${leafColumns(`case when isfinite(at) then ${AT_US} end`)})::text`;
const rowsOf = (table: string, columns: string): string =>
  `select ${columns} from ${table} where shard = $1 and position > $2 and position <= $3 order by position`;
// Times are converted here: doing it in Postgres costs a tenth of the query, and all rows of a batch have the
// same. The last column is true if a text is empty, since COPY writes an empty text and null alike.
const HAS_EMPTY_TEXT = TEXT_COLUMNS.map((name) => `${name} = ''`).join(' or ');
const COPIED = `${leafColumns('at')}, nullif(${HAS_EMPTY_TEXT}, false)`;
const copyOf = (table: string, after: number, upTo: number): string => {
  const values = [0, SHARD, after, upTo];
  // COPY takes no parameters. These are numbers from this module.
  const query = rowsOf(table, COPIED).replace(/\$(\d)/g, (_, number: string) =>
    String(Number(values[Number(number)])),
  );
  return `copy (${query}) to stdout with (delimiter ',', null '')`;
};

const READ_BATCHES = `select coalesce(shard::text, ''), coalesce(last_position::text,
  ''), coalesce(event_count::text, ''), coalesce(instance::text, ''),
    coalesce(batch_no::text, ''), coalesce(case when isfinite(at) then (extract(epoch
      from at) * 1000000)::bigint::text end, ''), coalesce(format::text, ''),
    coalesce(chain, ''::bytea)
  from daybook.log_batch where shard = $1 and last_position > $2 and last_position <= $3
    order by last_position`;

/** Retained control events. */
export const READ_RETAINED_TEXTS = `select ${TEXT} from daybook.log_kept
  where shard = $1 and position > $2 and position <= $3 order by position limit $4`;

/** Reads rows of the log, or of a table with the same columns. */
export async function readRowTexts(
  client: ClientBase,
  table: string,
  after: number,
  upTo: number,
): Promise<EventRow[]> {
  const rows = await readCopyPage(client, copyOf(table, after, upTo));
  if (rows !== null) return rows;
  const single = await client.query<[string]>({
    text: rowsOf(table, TEXT),
    values: [SHARD, after, upTo],
    rowMode: 'array',
  });
  return single.rows.map(([text]) => rowOfText(text));
}

export async function readBatches(
  client: ClientBase,
  after: number | string,
  upTo: number,
): Promise<BatchRow[]> {
  const { rows } = await client.query<[string, string, string, string, string, string, string, Buffer]>({
    name: 'verify_batches',
    text: READ_BATCHES,
    values: [SHARD, after, upTo],
    rowMode: 'array',
  });
  return rows.map(([shard, lastPosition, eventCount, instance, batchNo, at, format, chain]) => ({
    shard,
    lastPosition,
    eventCount,
    instance,
    batchNo,
    at,
    format,
    chain,
  }));
}

/** A row of `daybook.checkpoint` as a JSON expression. */
export const CHECKPOINT_JSON = `json_build_object(
  'epoch', epoch, 'size', size, 'note', note, 'published_at', published_at)`;
const READ_CHECKPOINTS = `select ${CHECKPOINT_JSON} as row from daybook.checkpoint where shard = $1
  and size > $2 and size <= $3 order by size, epoch`;

/** The stored checkpoints larger than one size up to another. */
export async function readCheckpointRows(
  client: ClientBase,
  after: number | string,
  upTo: number,
): Promise<CheckpointRow[]> {
  const { rows } = await client.query<{ row: CheckpointRow }>({
    name: 'verify_checkpoints',
    text: READ_CHECKPOINTS,
    values: [SHARD, after, upTo],
  });
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
  const { rows } = await client.query<[string]>({
    text: `select least((select min(position) from daybook.log where shard = $1 and position > $2),
      (select min(last_position) from daybook.log_batch where shard = $1 and last_position > $2), $3)`,
    values: [SHARD, after, upTo],
    rowMode: 'array',
  });
  return Number(rows[0]?.[0]);
}
