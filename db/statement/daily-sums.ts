import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { STATEMENT_SUMS, SUMMED_KINDS, type SummedKind } from '#db/projections/page/statement-sums.ts';
import { readProjectionStatus } from '#db/projections/state.ts';
import { db, type Placeholders, prepare } from '#db/schema/query.ts';

/**
 * The sums of whole UTC days, which the projection of usage keeps, in place of the calls. Everything else of
 * a period is read from the log: parts of days, corrections, and what the projection lacks yet.
 */

const DAY_MS = 86_400_000;

/** The sums of the requests of a day, or of some days, that are one line of a statement. */
export type DailySum = Record<(typeof STATEMENT_SUMS)[number], bigint> & {
  kind: SummedKind;
  model: string;
  day?: string;
  key?: string;
  /** The part of the cost that is charged to the prepaid balance. */
  charged_nanousd: bigint;
  first_position: number;
  last_position: number;
};

/** The sums of an account in a period, as the projection had them at one position. */
export type DailySums = {
  rows: DailySum[];
  /** They have all events up to here, and this event is of this time. */
  position: number;
  at: Date;
};

export type SumsWanted = {
  account: string;
  key: string | null;
  /** Beginnings of UTC days. */
  from: Date;
  to: Date;
  group_by: readonly ('day' | 'key')[];
  /** The positions of terms by which calls are charged to the prepaid balance, as an `int8multirange`. */
  charged: string;
  /** The most rows to return; null: all. */
  rowsMax: number | null;
};

/** The UTC days that lie within a period. @returns null without one. Pure. */
export function wholeDays(from: Date, to: Date): { from: Date; to: Date } | null {
  const first = Math.ceil(from.getTime() / DAY_MS) * DAY_MS;
  const end = Math.floor(to.getTime() / DAY_MS) * DAY_MS;
  return first < end ? { from: new Date(first), to: new Date(end) } : null;
}

type Values = {
  account: string;
  key: string | null;
  from: Date;
  to: Date;
  by_day: boolean;
  by_key: boolean;
  charged: string;
  rows_max: number | null;
};

/** Rejected requests are a single figure of a statement, and no line. */
const IS_LINE = sql<boolean>`kind <> ${sql.lit(SUMMED_KINDS.indexOf('rejected'))}`;

/** One statement, so that the position is that of the sums. */
const readSums = prepare('read_daily_sums', (values: Placeholders<Values>) => {
  const rows = db
    .selectFrom('projection.statement_day')
    .select(['kind', 'model', ...STATEMENT_SUMS, 'first_position', 'last_position', 'terms_position'])
    .select([
      sql<string | null>`case when ${values.by_key}::boolean and ${IS_LINE} then key end`.as('key'),
      sql<string | null>`case when ${values.by_day}::boolean and ${IS_LINE}
        then to_char(day at time zone 'UTC', 'YYYY-MM-DD') end`.as('day'),
    ])
    .where('account', '=', values.account)
    .where('day', '>=', values.from)
    .where('day', '<', values.to)
    .where(({ ref }) => sql<boolean>`(${values.key}::text is null or ${ref('key')} = ${values.key})`);
  const sums = db
    .selectFrom(rows.as('r'))
    .select(['kind', 'model', 'key', 'day'])
    .select(STATEMENT_SUMS.map((name) => sql<string>`sum(${sql.ref(name)})`.as(name)))
    .select(
      sql<string>`coalesce(sum(cost_nanousd) filter
        (where terms_position <@ ${values.charged}::int8multirange), 0)`.as('charged_nanousd'),
    )
    .select(({ fn }) => [fn.min('first_position').as('first_position')])
    .select(({ fn }) => [fn.max('last_position').as('last_position')])
    .groupBy(['kind', 'model', 'key', 'day'])
    .limit(values.rows_max);
  return db
    .selectFrom('daybook.projection as p')
    .leftJoin(sums.as('s'), (join) => join.onTrue())
    .select(['p.position', 'p.position_at'])
    .selectAll('s')
    .where('p.name', '=', 'usage');
});

/**
 * Reads sums, together with the position up to which the projection has them.
 * @returns null where the projection lacks events below its position, or waits for a rebuild.
 */
export async function readDailySums(client: ClientBase, wanted: SumsWanted): Promise<DailySums | null> {
  if (!(await isWhole(client))) return null;
  const { group_by: groups, rowsMax, ...values } = wanted;
  const rows = await readSums(client, {
    ...values,
    by_day: groups.includes('day'),
    by_key: groups.includes('key'),
    rows_max: rowsMax,
  });
  const [state] = rows;
  if (state === undefined || state.position_at === null) return null;
  return {
    position: Number(state.position),
    at: state.position_at,
    rows: rows.flatMap(({ kind, model, key, day, ...row }) => {
      if (kind === null || model === null) return [];
      const sums = Object.fromEntries(STATEMENT_SUMS.map((name) => [name, BigInt(row[name] ?? 0)]));
      return {
        ...(sums as Pick<DailySum, (typeof STATEMENT_SUMS)[number]>),
        kind: SUMMED_KINDS[kind] as SummedKind,
        model,
        ...(day === null ? {} : { day }),
        ...(key === null ? {} : { key }),
        charged_nanousd: BigInt(row.charged_nanousd ?? 0),
        first_position: Number(row.first_position),
        last_position: Number(row.last_position),
      };
    }),
  };
}

const isWhole = async (client: ClientBase): Promise<boolean> =>
  (await readProjectionStatus(client)).some(
    ({ projection, state, parked }) => projection === 'usage' && state === 'live' && parked === 0,
  );
