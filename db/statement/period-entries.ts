import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { positionAt } from '#db/log/lookup.ts';
import { db, rowsOf } from '#db/schema/query.ts';
import {
  type DailySum,
  type DailySums,
  readDailySums,
  type SumsWanted,
  wholeDays,
} from '#db/statement/daily-sums.ts';
import { readEntriesAround, readRequestEntries, type RequestSubject } from '#db/statement/request-entries.ts';

/**
 * What an account used in a period: sums of its whole days where the projection has them, and the entries of
 * all other events. Sums and entries are of each event once, whatever the projection lacks.
 */

export type Period = RequestSubject & {
  from: Date;
  to: Date;
  /** The newest position of the log. */
  head: number;
  /** No event up to here counts. */
  after?: number;
};

export type PeriodEntries = {
  sums: readonly DailySum[];
  /** The position up to which the sums have all events; 0 without sums. */
  position: number;
  pages: AsyncGenerator<string[]>;
};

/** @param wanted how days are summed; null: all events are read. */
export async function readPeriod(
  client: ClientBase,
  period: Period,
  wanted: Pick<SumsWanted, 'group_by' | 'charged' | 'rowsMax'> | null,
): Promise<PeriodEntries> {
  const days = wanted === null ? null : wholeDays(period.from, period.to);
  if (days === null || wanted === null)
    return { sums: [], position: 0, pages: readPart(client, period, period) };
  const { account, key } = period;
  const sums = await readDailySums(client, { account, key, ...days, ...wanted });
  if (sums === null) return { sums: [], position: 0, pages: readPart(client, period, period) };
  return { sums: sums.rows, position: sums.position, pages: readRest(client, period, days, sums) };
}

type Times = { from: Date; to: Date };

/** All entries of a part of the period, of positions above `above`. */
async function* readPart(
  client: ClientBase,
  { head, after: afterPeriod = 0, ...subject }: Period,
  { from, to }: Times,
  above = 0,
): AsyncGenerator<string[]> {
  const first = await positionAt(client, from, head);
  const upTo = (await positionAt(client, to, head)) - 1;
  yield* readRequestEntries(client, {
    ...subject,
    ...{ from, to, after: Math.max(first - 1, afterPeriod, above), upTo },
  });
}

/** The entries that sums of days do not have. */
async function* readRest(
  client: ClientBase,
  period: Period,
  days: Times,
  { position, at }: DailySums,
): AsyncGenerator<string[]> {
  const { from, to } = period;
  if (from < days.from) yield* readPart(client, period, { from, to: days.from });
  const corrected = await readCorrected(client, period, days, position);
  yield* readEntriesAround(client, period.account, corrected, ['usage.adjusted']);
  // Times never decrease along the log, so that the projection has all of the days once it is behind them.
  if (at < days.to) yield* readPart(client, period, days, position);
  if (days.to < to) yield* readPart(client, period, { from: days.to, to });
}

/** The positions of the corrections that were recorded on some days, up to a position. */
async function readCorrected(
  client: ClientBase,
  { account, key, after = 0 }: Period,
  { from, to }: Times,
  upTo: number,
): Promise<number[]> {
  const rows = await rowsOf(
    client,
    db
      .selectFrom('daybook.correction')
      .select('position')
      .where('account', '=', account)
      .where(sql<boolean>`position > ${after} and position <= ${upTo}`)
      .where('at', '>=', from)
      .where('at', '<', to)
      .where(({ ref }) => sql<boolean>`(${key}::text is null or ${ref('key')} = ${key})`)
      .orderBy('position'),
  );
  return rows.map((row) => Number(row.position));
}
