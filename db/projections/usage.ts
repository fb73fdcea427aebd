import type { ClientBase } from 'pg';
import { BUCKETS } from '#db/projections/buckets.ts';
import { type EventPage, timestampOf } from '#db/projections/page/page.ts';
import type { Projection } from '#db/projections/projection.ts';
import { fieldText } from '#db/projections/page/rows-as-text.ts';
import { STATEMENT_COLUMNS, STATEMENT_SUMS, sumStatements } from '#db/projections/page/statement-sums.ts';
import { figuresText, rollUp, sumUsage, SUMS, type UsageRow } from '#db/projections/page/usage-sums.ts';

const HISTOGRAMS = ['duration_counts', 'first_byte_counts'] as const;
const FIGURES = [...SUMS, ...HISTOGRAMS];

/** The assignments for an existing row of the table `t`. */
const ADDED = [
  ...SUMS.map((name) => `${name} = t.${name} + excluded.${name}`),
  ...HISTOGRAMS.map((name) => {
    const counts = Array.from(
      { length: BUCKETS },
      (_, index) => `t.${name}[${index + 1}] + excluded.${name}[${index + 1}]`,
    );
    return `${name} = array[${counts.join(', ')}]`;
  }),
].join(',\n      ');

const UNITS_US = { minute: 60_000_000, hour: 3_600_000_000, day: 86_400_000_000 };
const KEYS = { model: ['account', 'key', 'model'], account: ['account'], none: [] } as const;

type Table = { name: string; unit: keyof typeof UNITS_US; by: keyof typeof KEYS };
const TABLES: readonly Table[] = [
  { name: 'usage_minute', unit: 'minute', by: 'model' },
  { name: 'usage_minute_total', unit: 'minute', by: 'none' },
  { name: 'usage_hour_key', unit: 'hour', by: 'model' },
  { name: 'usage_hour', unit: 'hour', by: 'account' },
  { name: 'usage_hour_total', unit: 'hour', by: 'none' },
  { name: 'usage_day', unit: 'day', by: 'model' },
  { name: 'usage_day_account', unit: 'day', by: 'account' },
];

/** Adds rows to a table. They come as lines: values of its row type, whose columns have this order. */
function addRows({ name, unit, by }: Table, parameter: number): string {
  const key = [unit, ...KEYS[by]];
  const columns = [...key, ...FIGURES];
  return `insert into ${name} as t (${columns.join(', ')})
    select ${columns.map((column) => `(r.added).${column}`).join(', ')}
      from (
        select line::${name} as added from string_to_table($${parameter}, e'\\n') as line offset 0
      ) r
    on conflict (${key.join(', ')}) do update set ${ADDED}`;
}

/** The texts of the rows of each table, as lines. */
function linesOf(minutes: readonly UsageRow[]): string[] {
  // In most pages all rows are of one minute, so that hours and days have the same figures.
  const texts = new Map<readonly number[], string>();
  const textOf = (figures: readonly number[]): string => {
    const text = texts.get(figures) ?? figuresText(figures);
    texts.set(figures, text);
    return text;
  };
  return TABLES.map(({ unit, by }) =>
    rollUp(minutes, UNITS_US[unit], by)
      .map((row) => {
        const key = KEYS[by].map((name) => `${fieldText(row[name])},`).join('');
        return `(${timestampOf(row.us)},${key}${textOf(row.figures)})`;
      })
      .join('\n'),
  );
}

const ADD = TABLES.map((table, index) => `add_${table.name} as (${addRows(table, index + 6)})`);

const ADD_STATEMENTS = `insert into statement_day as t (${STATEMENT_COLUMNS.join(', ')})
    select ${STATEMENT_COLUMNS.map((column) => `(r.added).${column}`).join(', ')}
      from (
        select line::statement_day as added
          from string_to_table($${TABLES.length + 6}, e'\\n') as line offset 0
      ) r
    on conflict (account, day, key, model, kind, terms_position) do update set
      ${STATEMENT_SUMS.map((name) => `${name} = t.${name} + excluded.${name}`).join(',\n      ')},
      last_position = excluded.last_position`;

/** All tables in one statement. */
const USAGE = `with ${ADD.join(',\n  ')},
  add_statement_day as (${ADD_STATEMENTS})
  insert into key_use as t (key, account, last_used_at, requests, cost_nanousd)
    select * from unnest($1::text[], $2::text[], $3::timestamptz[], $4::bigint[], $5::bigint[])
    on conflict (key) do update set last_used_at = greatest(t.last_used_at, excluded.last_used_at),
      requests = t.requests + excluded.requests, cost_nanousd = t.cost_nanousd + excluded.cost_nanousd`;

/** Usage by minute, hour and day, what statements add up, and the last use of each key. */
export const usage: Projection = {
  name: 'usage',
  tables: [...TABLES.map(({ name }) => name), 'statement_day', 'key_use'],
  // An account's hours, and all days, are kept forever.
  kept: [
    { table: 'usage_minute', time: 'minute' },
    { table: 'usage_hour_key', time: 'hour' },
    { table: 'usage_minute_total', time: 'minute' },
  ],
  async apply(client: ClientBase, { events }: EventPage): Promise<void> {
    const { minutes, keys } = sumUsage(events);
    if (keys.length === 0) return;
    await client.query({
      name: 'project_usage',
      text: USAGE,
      values: [
        keys.map(({ key }) => key),
        keys.map(({ account }) => account),
        keys.map(({ usedUs }) => (usedUs === null ? null : timestampOf(usedUs))),
        keys.map((use) => use.requests),
        keys.map(({ cost }) => cost),
        ...linesOf(minutes),
        sumStatements(events),
      ],
    });
  },
};
