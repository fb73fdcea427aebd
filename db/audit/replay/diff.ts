import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { compareTexts, type Totals, TOTAL_NAMES, totalOf, type UsageRow } from '#db/audit/replay/totals.ts';
import { type ShownWindow, shownWindows } from '#db/audit/replay/snapshot.ts';
import type { ReplayState } from '#db/audit/replay/state.ts';
import { WINDOW_KIND_OF } from '#db/limits/limits.ts';
import { METER_OF } from '#db/limits/meters.ts';
import { ENDED_OUTCOMES } from '#db/projections/outcomes.ts';
import { db, type Query, rowsOf } from '#db/schema/query.ts';

/**
 * Compares the totals of the projections with those of an independent fold in Node: two programs that share
 * no code and have read the same events.
 */

/** A total in which the two differ. */
export type Difference = {
  table: string;
  what: string;
  figure: string;
  projected: bigint | null;
  folded: bigint | null;
};

/** Totals of table rows, by the name of the row. */
type TotalsByName = Map<string, Figures>;
type Figures = Partial<Record<string, bigint>>;

/** The projected totals, all at one position of the log. */
export type ProjectedTotals = {
  position: number;
  usage: TotalsByName;
  accounts: TotalsByName;
  windows: TotalsByName | null;
  running: TotalsByName | null;
};

const REQUESTS = ENDED_OUTCOMES.join(' + ');
/** The totals that both sides have: the tables don't count abandoned requests separately. */
const COMPARED = TOTAL_NAMES.filter((name) => name !== 'abandoned');
const SUMS = COMPARED.map((name) =>
  sql<string>`sum(${name === 'requests' ? sql.raw(REQUESTS) : sql.ref(name)})`.as(name),
);

/**
 * Reads the tables within one snapshot.
 * @returns null if the usage projection is detached or lacks an event, which the row-by-row comparison
 * reports.
 */
export async function readProjectedTotals(client: ClientBase): Promise<ProjectedTotals | null> {
  await client.query('begin isolation level repeatable read, read only');
  try {
    const rows = await rowsOf(
      client,
      db.selectFrom('daybook.projection as p').select([
        'p.name',
        'p.position',
        sql<boolean>`is_live and not exists (
            select from daybook.parked_event e where e.projection = p.name)`.as('is_complete'),
      ]),
    );
    const usage = rows.find(({ name, is_complete }) => name === 'usage' && is_complete);
    if (usage === undefined) return null;
    const isCurrent = (name: string): boolean =>
      rows.some((each) => each.name === name && each.is_complete && each.position === usage.position);
    const read = async (query: Query<{ name: string }>): Promise<TotalsByName> =>
      new Map((await rowsOf(client, query)).map(({ name, ...figures }) => [name, figuresOf(figures)]));
    return {
      position: Number(usage.position),
      usage: await read(
        db
          .selectFrom('projection.usage_day')
          .select(sql<string>`concat_ws(' ', account, key, model)`.as('name'))
          .select(SUMS)
          .groupBy(['account', 'key', 'model']),
      ),
      accounts: await read(
        db
          .selectFrom('projection.usage_day_account')
          .select('account as name')
          .select(SUMS)
          .groupBy('account'),
      ),
      windows: isCurrent('quotas') ? await readWindows(client) : null,
      running: isCurrent('requests')
        ? await read(
            db
              .selectFrom('projection.running_request')
              .select(['account as name', sql<string>`count(*)`.as('open_requests')])
              .groupBy('account'),
          )
        : null,
    };
  } finally {
    await client.query('rollback');
  }
}

async function readWindows(client: ClientBase): Promise<TotalsByName> {
  const rows = await rowsOf(
    client,
    db
      .selectFrom('projection.quota_window')
      .select(['subject', 'meter', 'window_kind', 'window_start', 'reset_position', 'cap', 'used', 'held']),
  );
  return new Map(
    rows.map((row) => [
      [
        row.subject,
        METER_OF.get(row.meter),
        WINDOW_KIND_OF.get(row.window_kind),
        new Date(row.window_start * 60_000).toISOString(),
        row.reset_position,
      ].join(' '),
      figuresOf({ limit: row.cap, settled: row.used, held: row.held }),
    ]),
  );
}

/** The totals in which the fold and the tables differ. */
export function compareTotals(
  state: ReplayState,
  { usage, accounts, windows, running }: ProjectedTotals,
): Difference[] {
  const rows = state.usage.rows();
  const nameOf = ({ account, key, model }: UsageRow): string => [account, key, model].join(' ');
  const byAccount = Map.groupBy(rows, ({ account }) => account);
  const open = Map.groupBy(state.open.values(), ({ request }) => request.account);
  return [
    ...compareRows('usage_day', usage, new Map(rows.map((row) => [nameOf(row), compared(row)]))),
    ...compareRows(
      'usage_day_account',
      accounts,
      new Map([...byAccount].map(([account, own]) => [account, compared(totalOf(own))])),
    ),
    ...(running === null
      ? []
      : compareRows(
          'running_request',
          running,
          new Map([...open].map(([account, calls]) => [account, figuresOf({ open_requests: calls.length })])),
        )),
    ...(windows === null ? [] : compareWindows(windows, shownWindows(state, state.at))),
  ];
}

const compared = (figures: Totals): Figures =>
  Object.fromEntries(COMPARED.map((name) => [name, BigInt(figures[name])]));

const figuresOf = (figures: object): Figures =>
  Object.fromEntries(
    Object.entries(figures).map(([name, value]) => [name, BigInt(value as string | number)]),
  );

/**
 * Compares the current windows. The fold has discarded windows that are over, and the table has no row for
 * windows without charges.
 */
function compareWindows(projected: TotalsByName, shown: readonly ShownWindow[]): Difference[] {
  const folded: TotalsByName = new Map(
    shown.map(({ subject, meter, window, starts_at, reset_position, limit, settled, held }) => [
      [subject, meter, window, starts_at, reset_position].join(' '),
      figuresOf({ limit, settled, held }),
    ]),
  );
  const running = new Map([...projected].filter(([name]) => folded.has(name)));
  const charged = new Map(
    [...folded].filter(
      ([name, { settled, held }]) => running.has(name) || (settled ?? 0) > 0 || (held ?? 0) > 0,
    ),
  );
  return compareRows('quota_window', running, charged);
}

function compareRows(table: string, projected: TotalsByName, folded: TotalsByName): Difference[] {
  const names = [...new Set([...projected.keys(), ...folded.keys()])].toSorted(compareTexts);
  return names.flatMap((what) => {
    const [left, right] = [projected.get(what), folded.get(what)];
    const figures = Object.keys(left ?? right ?? {});
    return figures
      .filter((figure) => left?.[figure] !== right?.[figure])
      .map((figure) => ({
        table,
        what,
        figure,
        projected: left?.[figure] ?? null,
        folded: right?.[figure] ?? null,
      }));
  });
}
