import { USAGE_SOURCE_OF } from '#db/events/endings.ts';
import { EVENT_CODES } from '#db/events/events.ts';
import { isEstimated } from '#db/fold/estimated.ts';
import { AT } from '#db/log/columns.ts';
import type { Cells } from '#db/log/line.ts';
import { addExactly, integerOf } from '#db/projections/page/exact-sums.ts';
import { type PageEvent, timestampOf } from '#db/projections/page/page.ts';
import { fieldText } from '#db/projections/page/rows-as-text.ts';

/** What statements count, by day, account, key, model, kind and terms. */

/** The kinds of the rows by their codes: those of a statement's lines, and rejected requests. */
export const SUMMED_KINDS = ['priced', 'abandoned', 'unpriced', 'rejected'] as const;
export type SummedKind = (typeof SUMMED_KINDS)[number];

/** The sums of a row, in the order of their columns. */
export const STATEMENT_SUMS = [
  'requests',
  'estimated',
  'input_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'output_tokens',
  'reasoning_tokens',
  'abandoned_tokens',
  'estimated_cost_nanousd',
  'cost_nanousd',
] as const;
const [REQUESTS, ESTIMATED] = [0, 1];
const TOKENS = STATEMENT_SUMS.slice(2, 7).map((name, index) => ({
  cell: AT[name as 'input_tokens'],
  at: index + 2,
}));
const [ABANDONED_TOKENS, ESTIMATED_COST, COST] = [7, 8, 9];

/** The columns of a row, in the order of {@link sumStatements}. */
export const STATEMENT_COLUMNS = [
  ...['day', 'terms_position', ...STATEMENT_SUMS, 'first_position', 'last_position'],
  ...['kind', 'account', 'key', 'model'],
] as const;

type Row = {
  /** The beginning of the day, in microseconds since 1970. */
  us: number;
  kind: number;
  cells: Cells;
  sums: number[];
  first: number;
  last: number;
};

const SETTLED = EVENT_CODES['request.settled'];
const ABANDONED = EVENT_CODES['request.abandoned'];
const REJECTED = EVENT_CODES['request.rejected'];
const DAY_US = 86_400_000_000;
const ESTIMATED_SOURCES: ReadonlySet<string> = new Set(
  [...USAGE_SOURCE_OF].flatMap(([code, source]) => (isEstimated(source) ? [String(code)] : [])),
);
const KIND: Readonly<Record<SummedKind, number>> = { priced: 0, abandoned: 1, unpriced: 2, rejected: 3 };

/**
 * The rows of a page as lines, which are composite values. Pure.
 * @throws {TypeError} where a field is no integer. {RangeError} where a sum would not be exact.
 */
export function sumStatements(events: readonly PageEvent[]): string {
  const rows = new Map<string, Row>();
  for (const { type, cells, atUs, position } of events) {
    if (type !== SETTLED && type !== ABANDONED && type !== REJECTED) continue;
    const kind = kindOf(type, cells);
    const us = atUs - (atUs % DAY_US);
    const group = `${kind},${termsOf(kind, cells)},${cells[AT.account]},${cells[AT.key]}`;
    const id = `${us},${group},${modelOf(kind, cells)}`;
    let row = rows.get(id);
    if (row === undefined) {
      const sums = STATEMENT_SUMS.map(() => 0);
      rows.set(id, (row = { us, kind, cells, sums, first: position, last: position }));
    }
    row.last = position;
    count(row.sums, kind, cells);
  }
  return [...rows.values()].map(lineOf).join('\n');
}

function kindOf(type: number, cells: Cells): number {
  if (type === REJECTED) return KIND.rejected;
  if (type === ABANDONED) return KIND.abandoned;
  return cells[AT.cost_nanousd] == null ? KIND.unpriced : KIND.priced;
}

const termsOf = (kind: number, cells: Cells): string =>
  (kind === KIND.rejected ? null : cells[AT.terms_position]) ?? '0';
const modelOf = (kind: number, cells: Cells): string =>
  (kind === KIND.rejected ? null : cells[AT.model]) ?? '';

function count(sums: number[], kind: number, cells: Cells): void {
  const add = (at: number, text: string | null | undefined): void => {
    if (text != null) sums[at] = addExactly(sums[at] as number, integerOf(text));
  };
  if (kind === KIND.rejected) return add(REQUESTS, cells[AT.rejected_count]);
  const cost = cells[kind === KIND.abandoned ? AT.hold_cost_nanousd : AT.cost_nanousd];
  add(REQUESTS, '1');
  add(COST, cost);
  if (ESTIMATED_SOURCES.has(cells[AT.usage_source] ?? '')) {
    add(ESTIMATED, '1');
    add(ESTIMATED_COST, cost);
  }
  if (kind === KIND.abandoned) add(ABANDONED_TOKENS, cells[AT.hold_tokens]);
  else for (const { cell, at } of TOKENS) add(at, cells[cell]);
}

function lineOf({ us, kind, cells, sums, first, last }: Row): string {
  const names = [cells[AT.account] ?? null, cells[AT.key] ?? null, modelOf(kind, cells)];
  const numbers = [termsOf(kind, cells), ...sums, first, last, kind];
  return `(${[timestampOf(us), ...numbers, ...names.map(fieldText)].join()})`;
}
