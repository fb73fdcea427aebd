import { type ClientBase, DatabaseError } from 'pg';
import { sql } from 'kysely';
import type { EventOf } from '#db/events/events.ts';
import { type AllowanceName, compareNames } from '#db/limits/leases.ts';
import { WINDOW_KINDS } from '#db/limits/limits.ts';
import { METERS } from '#db/limits/meters.ts';
import { FencedError } from '#db/log/append.ts';
import { LineWriter } from '#db/log/line-writer.ts';
import { writeRequestLine } from '#db/log/request-line.ts';
import { retryTransaction } from '#db/postgres/retry-transaction.ts';
import { countOf, db, type Queryable, type Result, rowOf, rowsOf } from '#db/schema/query.ts';
import type { StoredName, StoredPlace } from '#db/stored/places.ts';

/** All queries on batches whose lines are not all settled. */

/** Units that all lines of a batch need of a window. */
export type BatchWindow = AllowanceName & {
  units: number;
  cap: number;
  /** The position of the control event that set the cap. */
  terms: number;
};

/** A line as it is stored until it is settled. */
export type BatchLine = {
  /** SHA-256 of the client's custom_id, in hex. */
  custom_id: string;
  request: string;
  model: string;
  body_bytes: number;
  prompt_tokens: number;
  output_limit: number | null;
  choices: number;
  hold_tokens: number;
  hold_cost_nanousd: number | null;
};

export type NewBatch = {
  batch: string;
  account: string;
  key: string;
  upstream: string;
  credential: string | null;
  input_file: string;
  facts: string;
};

/** Why a batch was not accepted: the window that has too few units, or too many lines in progress. */
export type BatchShortage =
  | { kind: 'lines' }
  | { kind: 'units'; window: BatchWindow; free: number; used: number; held: number; recallable: boolean };

const line = new LineWriter();
function textOf(event: EventOf<'request.accepted' | 'request.settled' | 'request.abandoned'>): string {
  writeRequestLine(line, event);
  return line.bytes.toString('latin1', 0, line.length);
}

/** Lines of a row of the log. */
const LINES_PER_CHUNK = 500;

function chunksOf(lines: readonly string[]): string[] {
  const chunks: string[] = [];
  for (let at = 0; at < lines.length; at += LINES_PER_CHUNK)
    chunks.push(lines.slice(at, at + LINES_PER_CHUNK).join('\n'));
  return chunks;
}

const ACCEPT = `select short, free, used, held, recallable from daybook.accept_batch(
  $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`;

/**
 * Accepts the lines of a batch with their reservations, or none of them, in one transaction. Repeating a call
 * is safe.
 * @param since the position of the terms that the lines are charged by.
 * @param linesMax the lines that an account may have in progress.
 * @returns null: it was accepted.
 * @throws {FencedError} when the instance is no longer live.
 */
export async function acceptBatch(
  client: ClientBase,
  instance: number,
  {
    batch,
    windows,
    since,
    lines,
    linesMax,
  }: {
    batch: NewBatch;
    windows: readonly BatchWindow[];
    since: number;
    lines: readonly { row: BatchLine; event: EventOf<'request.accepted'> }[];
    linesMax: number;
  },
): Promise<BatchShortage | null> {
  const ordered = windows.toSorted(compareNames);
  const values = [
    instance,
    ordered.map(({ subject }) => subject),
    ordered.map(({ meter }) => METERS[meter].code),
    ordered.map(({ window }) => WINDOW_KINDS[window]),
    ordered.map(({ start }) => start),
    ordered.map(({ reset }) => reset),
    ordered.map(({ cap }) => cap),
    ordered.map(({ terms }) => terms),
    since,
    ordered.map(({ units }) => units),
    JSON.stringify({ ...batch, line_count: lines.length }),
    JSON.stringify(lines.map(({ row }) => row)),
    chunksOf(lines.map(({ event }) => textOf(event))),
    linesMax,
  ];
  const { rows } = await fenced(() => client.query<Result<'daybook.accept_batch'>>({ text: ACCEPT, values }));
  const [row] = rows;
  if (row?.short == null) return null;
  const window = ordered[row.short - 1];
  if (window === undefined) return { kind: 'lines' };
  const { free, used, held, recallable } = row;
  return {
    ...{ kind: 'units', window, free: Number(free), used: Number(used), held: Number(held) },
    recallable: recallable ?? false,
  };
}

const SETTLE = 'select daybook.settle_batch($1, $2, $3) as settled';

/**
 * Appends the endings of lines of a batch, and charges their limits with them in place of their reservations.
 * Lines that have their ending already are skipped.
 * @returns the requests whose endings were appended.
 * @throws {FencedError} when the instance is no longer live.
 */
export async function settleBatch(
  client: ClientBase,
  instance: number,
  batch: string,
  endings: readonly EventOf<'request.settled' | 'request.abandoned'>[],
): Promise<Set<string>> {
  const values = [instance, batch, endings.map(textOf)];
  const { rows } = await fenced(() =>
    client.query<{ settled: Result<'daybook.settle_batch'> }>({ text: SETTLE, values }),
  );
  return new Set(rows[0]?.settled);
}

async function fenced<T>(transaction: () => Promise<T>): Promise<T> {
  try {
    return await retryTransaction(transaction);
  } catch (error) {
    if (error instanceof DatabaseError && error.code === 'DB001') throw new FencedError(error.message);
    throw error;
  }
}

/** A batch that a server follows. */
export type FollowedBatch = NewBatch & {
  /** Null: it isn't known whether its provider has created it. */
  id: string | null;
  ageMs: number;
  /** Since it was seen to have ended; null: it was not. */
  endedMs: number | null;
};

/**
 * Takes batches whose provider is to be asked now: those that were created, and those of servers that were
 * recovered. No other server takes them meanwhile.
 * @param instance that takes them: when it is recovered, they are due again.
 */
export async function takeDueBatches(
  client: Queryable,
  instance: number,
  limit: number,
  takenMs: number,
): Promise<FollowedBatch[]> {
  const due = db
    .selectFrom('daybook.batch as b')
    .leftJoin('daybook.instance as i', 'i.id', 'b.holder')
    .select('b.batch')
    .where('b.due_at', '<=', sql<Date>`statement_timestamp()`)
    .where((eb) => eb.or([eb('b.holder', 'is', null), eb('i.closed_at', 'is not', null)]))
    .orderBy('b.due_at')
    .limit(limit)
    .forUpdate('b')
    .skipLocked();
  const rows = await rowsOf(
    client,
    db
      .updateTable('daybook.batch')
      .set({ due_at: inMs(takenMs), taken_by: instance })
      .where('batch', 'in', due)
      .returning(['batch', 'account', 'key', 'upstream', 'credential', 'input_file', 'facts', 'id'])
      .returning(sql<string>`extract(epoch from statement_timestamp() - created_at) * 1000`.as('age'))
      .returning(sql<string | null>`extract(epoch from statement_timestamp() - ended_at) * 1000`.as('ended')),
  );
  return rows.map(({ age, ended, ...row }) => ({
    ...row,
    ageMs: Number(age),
    endedMs: ended === null ? null : Number(ended),
  }));
}

/** Asks the provider again after some time, or is still at it. @param instance that is; null: none is. */
export async function postponeBatch(
  client: Queryable,
  batch: string,
  ms: number,
  instance: number | null = null,
): Promise<void> {
  const query = db
    .updateTable('daybook.batch')
    .set({ due_at: inMs(ms), taken_by: instance })
    .where('batch', '=', batch);
  await countOf(client, query);
}

/** The provider has created the batch under this id, or is to be asked whether it has (null). */
export async function releaseBatch(
  client: Queryable,
  batch: string,
  id: string | null,
  afterMs: number,
): Promise<void> {
  const query = db
    .updateTable('daybook.batch')
    .set({ id, holder: null, taken_by: null, due_at: inMs(afterMs) })
    .where('batch', '=', batch);
  await countOf(client, query);
}

/** Asks the provider now. */
export async function hastenBatch(client: Queryable, { account, id }: StoredName): Promise<void> {
  const query = db
    .updateTable('daybook.batch')
    .set({ due_at: inMs(0) })
    .where('account', '=', account)
    .where('id', '=', id);
  await countOf(client, query);
}

/** Notes the files with the output of a batch, so that they are not deleted before its lines are settled. */
export async function noteOutput(
  client: Queryable,
  { account, id }: StoredName,
  { output, error, hasEnded }: { output: string | null; error: string | null; hasEnded: boolean },
): Promise<void> {
  const query = db
    .updateTable('daybook.batch')
    .set({
      output_file: output,
      error_file: error,
      ...(hasEnded ? { ended_at: sql<Date>`coalesce(ended_at, statement_timestamp())` } : {}),
    })
    .where('account', '=', account)
    .where('id', '=', id);
  await countOf(client, query);
}

/** Whether a batch with lines that are not settled has this file. */
export async function isFileInUse(client: Queryable, { account, id }: StoredName): Promise<boolean> {
  const query = db
    .selectFrom('daybook.batch')
    .select('batch')
    .where('account', '=', account)
    .where((eb) => eb.or([eb('input_file', '=', id), eb('output_file', '=', id), eb('error_file', '=', id)]))
    .limit(1);
  return (await rowOf(client, query)) !== undefined;
}

/** Whether lines of a batch have no ending yet. */
export async function isBatchOpen(client: Queryable, { account, id }: StoredName): Promise<boolean> {
  const query = db
    .selectFrom('daybook.batch')
    .select('batch')
    .where('account', '=', account)
    .where('id', '=', id)
    .limit(1);
  return (await rowOf(client, query)) !== undefined;
}

const LINE_COLUMNS = [
  'request',
  'model',
  'body_bytes',
  'prompt_tokens',
  'output_limit',
  'choices',
  'hold_tokens',
  'hold_cost_nanousd',
] as const;
type LineRow = Omit<BatchLine, 'custom_id' | 'hold_tokens' | 'hold_cost_nanousd'> & {
  hold_tokens: string | number;
  hold_cost_nanousd: string | number | null;
  custom_id: string;
};
const lineOf = ({ hold_tokens, hold_cost_nanousd, ...row }: LineRow): BatchLine => ({
  ...row,
  hold_tokens: Number(hold_tokens),
  hold_cost_nanousd: hold_cost_nanousd === null ? null : Number(hold_cost_nanousd),
});

/** The lines with these ids that are not settled. @param ids SHA-256 of the client's custom ids, in hex. */
export async function readBatchLines(
  client: Queryable,
  batch: string,
  ids: readonly string[],
): Promise<BatchLine[]> {
  const query = db
    .selectFrom('daybook.batch_line')
    .select(LINE_COLUMNS)
    .select(sql<string>`encode(custom_id, 'hex')`.as('custom_id'))
    .where('batch', '=', batch)
    .where(sql<boolean>`custom_id = any(array(select decode(id, 'hex') from unnest(${ids}::text[]) as id))`);
  return (await rowsOf(client, query)).map(lineOf);
}

/** Some lines that are not settled. */
export async function readOpenLines(client: Queryable, batch: string, limit: number): Promise<BatchLine[]> {
  const query = db
    .selectFrom('daybook.batch_line')
    .select(LINE_COLUMNS)
    .select(sql<string>`encode(custom_id, 'hex')`.as('custom_id'))
    .where('batch', '=', batch)
    .orderBy('custom_id')
    .limit(limit);
  return (await rowsOf(client, query)).map(lineOf);
}

/** Those of these ids of an upstream that are known as batches. */
export async function knownBatches(
  client: Queryable,
  { upstream }: Pick<StoredPlace, 'upstream'>,
  ids: readonly string[],
): Promise<Set<string>> {
  const query = db
    .selectFrom('daybook.stored_object')
    .select('id')
    .where('upstream', '=', upstream)
    .where('id', 'in', [...ids]);
  return new Set((await rowsOf(client, query)).map(({ id }) => id));
}

const inMs = (ms: number) => sql<Date>`statement_timestamp() + ${ms} * interval '1 ms'`;
