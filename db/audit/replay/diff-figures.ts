import type { ClientBase } from 'pg';
import { compareTexts, type Figures, FIGURES, totalOf, type UsageRow } from '#db/audit/replay/figures.ts';
import { type ShownWindow, shownWindows } from '#db/audit/replay/snapshot.ts';
import type { AuditState } from '#db/audit/replay/state.ts';
import { WINDOW_KIND_OF } from '#db/limits/limits.ts';
import { METER_OF } from '#db/limits/meters.ts';
import { ENDED_OUTCOMES } from '#db/projections/outcomes.ts';

/**
 * The fold in Node beside the figures of the tables: two programs that know nothing of one another
 * and have read the same events.
 */

/** A figure that the two disagree about. */
export type Disagreement = {
  table: string;
  what: string;
  figure: string;
  projected: number | null;
  folded: number | null;
};

/** Rows of tables as figures by name. */
type Rows = Map<string, Partial<Record<string, number>>>;

/** What the tables say, all at one position of the log. */
export type Tables = {
  position: number;
  usage: Rows;
  accounts: Rows;
  windows: Rows | null;
  running: Rows | null;
};

const REQUESTS = ENDED_OUTCOMES.join(' + ');
/** What both have: the tables know of abandoned calls only what they hold. */
const COMPARED = FIGURES.filter((name) => name !== 'abandoned');
const sums = COMPARED.map((name) => `sum(${name === 'requests' ? REQUESTS : name})::float8 as ${name}`).join(
  ', ',
);
const POSITIONS = `select name, position::float8 as position, is_live and not exists (
    select from daybook.parked_event e where e.projection = p.name) as is_whole from daybook.projection p`;

/**
 * Reads the tables within one snapshot.
 * @returns null where those of usage aren't there, or lack an event: the comparison row by row says so.
 */
export async function readTables(client: ClientBase): Promise<Tables | null> {
  await client.query('begin isolation level repeatable read, read only');
  try {
    const { rows } = await client.query<{ name: string; position: number; is_whole: boolean }>(POSITIONS);
    const usage = rows.find(({ name, is_whole }) => name === 'usage' && is_whole);
    if (usage === undefined) return null;
    const isBeside = (name: string): boolean =>
      rows.some((each) => each.name === name && each.is_whole && each.position === usage.position);
    const read = async (text: string): Promise<Rows> => {
      const found = await client.query<{ name: string }>(text);
      return new Map(
        found.rows.map(({ name, ...figures }) => [name, figures as Partial<Record<string, number>>]),
      );
    };
    return {
      position: usage.position,
      usage: await read(
        `select concat_ws(' ', account, key, model) as name, ${sums} from projection.usage_day group by account, key, model`,
      ),
      accounts: await read(
        `select account as name, ${sums} from projection.usage_day_account group by account`,
      ),
      windows: isBeside('quotas') ? await readWindows(client) : null,
      running: isBeside('requests')
        ? await read(
            'select account as name, count(*)::float8 as open_requests from projection.running_request group by account',
          )
        : null,
    };
  } finally {
    await client.query('rollback');
  }
}

type WindowRow = {
  subject: string;
  meter: number;
  window_kind: number;
  begins_at: Date;
  reset_position: number;
  cap: number;
  used: number;
  held: number;
};

async function readWindows(client: ClientBase): Promise<Rows> {
  const { rows } = await client.query<WindowRow>(
    `select subject, meter, window_kind, begins_at, reset_position::float8, cap::float8, used::float8, held::float8 from projection.quota_window`,
  );
  return new Map(
    rows.map((row) => [
      [
        row.subject,
        METER_OF.get(row.meter),
        WINDOW_KIND_OF.get(row.window_kind),
        row.begins_at.toISOString(),
        row.reset_position,
      ].join(' '),
      { limit: row.cap, settled: row.used, held: row.held },
    ]),
  );
}

/** Where the fold of the same events comes to other figures than the tables. */
export function disagreements(
  state: AuditState,
  { usage, accounts, windows, running }: Tables,
): Disagreement[] {
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
          new Map([...open].map(([account, calls]) => [account, { open_requests: calls.length }])),
        )),
    ...(windows === null ? [] : compareWindows(windows, shownWindows(state, state.at))),
  ];
}

const compared = (figures: Figures): Partial<Record<string, number>> =>
  Object.fromEntries(COMPARED.map((name) => [name, figures[name]]));

/**
 * The windows that run: the fold has let go of those that are over, and the table has none of those that
 * nobody touched.
 */
function compareWindows(projected: Rows, shown: readonly ShownWindow[]): Disagreement[] {
  const folded: Rows = new Map(
    shown.map(({ subject, meter, window, starts_at, reset_position, limit, settled, held }) => [
      [subject, meter, window, starts_at, reset_position].join(' '),
      { limit, settled, held },
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

function compareRows(table: string, projected: Rows, folded: Rows): Disagreement[] {
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
