import { type RawBuilder, sql } from 'kysely';
import type { ClientBase } from 'pg';
import { EVENT_CODES } from '#db/events/events.ts';
import { queryEntries } from '#db/log/entries.ts';
import { LINE_COLUMNS, type LogRange, requireWhole } from '#db/log/read.ts';
import { readProjectionState } from '#db/projections/state.ts';
import { db, rowOf, rowsOf } from '#db/schema/query.ts';

/**
 * The entries of one account's requests in a part of the log. The projection of requests names their
 * positions where it has all of them, so that only the stretches around them are searched; otherwise the
 * whole part is.
 */

/** Whose requests: of an account, or of one of its keys or end users. */
export type RequestSubject = { account: string; key: string | null; end_user: string | null };

export type RequestPart = LogRange & RequestSubject & { from: Date; to: Date };

/** Positions that one statement searches: some hundred milliseconds. */
const SEARCHED_AT_ONCE = 100_000;
/** Positions that one statement looks up. */
const LOOKED_UP_AT_ONCE = 2_000;
/** Searching so many events takes about as long as beginning another stretch. */
const STRETCH_GAP_MAX = 200;

type EntryType = 'request.settled' | 'request.abandoned' | 'request.rejected' | 'usage.adjusted';
const ALL_TYPES = ['request.settled', 'request.abandoned', 'request.rejected', 'usage.adjusted'] as const;
const codesOf = (types: readonly EntryType[]): string[] => types.map((type) => `(${EVENT_CODES[type]}`);

const SEARCH = `select ${LINE_COLUMNS} from daybook.lines($1, $2)
  where split_part(line, ',', 3) = $3 and split_part(line, ',', 1) = any($4)
  order by last_position, line_number`;
const SEARCH_STRETCHES = `select l.* from unnest($1::bigint[], $2::bigint[]) as stretch(after, up_to)
  cross join lateral (select ${LINE_COLUMNS} from daybook.lines(after, up_to)
    where split_part(line, ',', 3) = $3 and split_part(line, ',', 1) = any($4)) l
  order by position`;
const LOOK_UP = `select l.* from unnest($1::bigint[]) as wanted(at_position)
  cross join lateral (select ${LINE_COLUMNS} from daybook.lines(at_position - 1, at_position)) l
  order by position`;

/**
 * Entries in the order of the log, in pages. Those of other keys and end users of the account may be among
 * them.
 * @throws {ArchivedError} where a part is archived.
 */
export async function* readRequestEntries(client: ClientBase, part: RequestPart): AsyncGenerator<string[]> {
  const { account, after, upTo } = part;
  const positions = upTo > after ? await projectedPositions(client, part) : [];
  if (positions === null) {
    for (let at = after; at < upTo; at += SEARCHED_AT_ONCE) {
      const values = [at, Math.min(at + SEARCHED_AT_ONCE, upTo), account, codesOf(ALL_TYPES)];
      yield await queryEntries(client, 'search_statement', SEARCH, values);
    }
  } else {
    yield* readEntriesAround(client, account, positions);
  }
  await requireWhole(client, after);
}

/**
 * The entries of an account's requests at positions, which ascend, in pages.
 * @param types of them. Those of the account between near positions are among the entries, too.
 * @throws {ArchivedError} where one is archived.
 */
export async function* readEntriesAround(
  client: ClientBase,
  account: string,
  positions: readonly number[],
  types: readonly EntryType[] = ALL_TYPES,
): AsyncGenerator<string[]> {
  for (let at = 0; at < positions.length; at += LOOKED_UP_AT_ONCE) {
    const wanted = positions.slice(at, at + LOOKED_UP_AT_ONCE);
    const stretches = stretchesOf(wanted);
    const bounds = [stretches.map((each) => each.after), stretches.map((each) => each.upTo)];
    const values = [...bounds, account, codesOf(types)];
    const entries = await queryEntries(client, 'search_stretches', SEARCH_STRETCHES, values);
    if (entries.length < wanted.length) await requireWhole(client, (wanted[0] as number) - 1);
    yield entries;
  }
}

/** Stretches of the log that cover positions, which ascend, and little else. Pure. */
export function stretchesOf(positions: readonly number[]): LogRange[] {
  const stretches: { after: number; upTo: number }[] = [];
  for (const position of positions) {
    const last = stretches.at(-1);
    if (last !== undefined && position - last.upTo <= STRETCH_GAP_MAX) last.upTo = position;
    else stretches.push({ after: position - 1, upTo: position });
  }
  return stretches;
}

/** The entries at these positions, in pages. @throws {ArchivedError} where one is archived. */
export async function* readEntriesAt(
  client: ClientBase,
  positions: readonly number[],
): AsyncGenerator<string[]> {
  for (let at = 0; at < positions.length; at += LOOKED_UP_AT_ONCE) {
    const wanted = positions.slice(at, at + LOOKED_UP_AT_ONCE);
    const entries = await queryEntries(client, 'look_up_statement', LOOK_UP, [wanted]);
    if (entries.length !== wanted.length) await requireWhole(client, (wanted[0] as number) - 1);
    yield entries;
  }
}

/** The positions of the subject's endings, rejections and corrections; null if the projection lacks some. */
async function projectedPositions(client: ClientBase, part: RequestPart): Promise<number[] | null> {
  const state = await readProjectionState(client, ['requests']);
  if (state.position < part.upTo || state.parked > 0) return null;
  const kept = await rowOf(
    client,
    db
      .selectFrom('daybook.projection')
      .select(sql<boolean>`kept_from <= ${part.from}`.as('has_all'))
      .where('name', '=', 'requests'),
  );
  if (kept?.has_all !== true) return null;
  const isOf = (column: RawBuilder<unknown>): RawBuilder<boolean> =>
    sql<boolean>`account = ${part.account} and ${column} > ${part.after} and ${column} <= ${part.upTo}
      and (${part.key}::text is null or key = ${part.key})
      and (${part.end_user}::text is null or end_user = ${part.end_user})`;
  const end = sql`coalesce(end_position, position)`;
  const requests = db
    .selectFrom('projection.request')
    .select(sql<string>`coalesce(end_position, position)`.as('at_position'))
    .where(isOf(end))
    .where('accepted_at', '<', part.to)
    .where(sql<boolean>`(end_position is not null or error_code is not null)`);
  const corrections = db
    .selectFrom('daybook.correction')
    .select('position as at_position')
    .where(isOf(sql.ref('position')));
  const rows = await rowsOf(client, requests.unionAll(corrections).orderBy('at_position'));
  return rows.map((row) => Number(row.at_position));
}
