import { END_REASON_OF, USAGE_SOURCE_OF } from '#db/events/endings.ts';
import { EVENT_CODES } from '#db/events/events.ts';
import { isEstimated } from '#db/fold/estimated.ts';
import { AT } from '#db/log/columns.ts';
import type { Cells } from '#db/log/line.ts';
import { bucketOf, BUCKETS } from '#db/projections/buckets.ts';
import { addExactly, integerOf } from '#db/projections/page/exact-sums.ts';
import { OUTCOME_OF, OUTCOMES } from '#db/projections/outcomes.ts';
import type { PageEvent } from '#db/projections/page/page.ts';

const ACCEPTED = EVENT_CODES['request.accepted'];
const SETTLED = EVENT_CODES['request.settled'];
const ABANDONED = EVENT_CODES['request.abandoned'];
const REJECTED = EVENT_CODES['request.rejected'];
const ADJUSTED = EVENT_CODES['usage.adjusted'];

/** The sums of the usage tables in the order of their columns; the two histograms follow them. */
export const SUMS = [
  ...OUTCOMES,
  'unpriced',
  'estimated',
  'input_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'output_tokens',
  'reasoning_tokens',
  'abandoned_tokens',
  'cost_nanousd',
  'upstream_cost_nanousd',
  'estimated_cost_nanousd',
  'corrections',
  'correction_cost_nanousd',
] as const;
type Sum = (typeof SUMS)[number];
const SUM_AT = Object.fromEntries(SUMS.map((name, index) => [name, index])) as Record<Sum, number>;
const DURATION_AT = SUMS.length;
const FIRST_BYTE_AT = DURATION_AT + BUCKETS;
const FIGURES = FIRST_BYTE_AT + BUCKETS;
const NO_FIGURES: readonly number[] = Array.from({ length: FIGURES }, () => 0);

/** The figures of endings, rejections and corrections in a unit of time. */
export type UsageRow = {
  /** Its beginning, in microseconds since 1970. */
  us: number;
  account: string | null;
  key: string | null;
  model: string;
  /** The sums in the order of {@link SUMS}, then the histograms of durations and of first bytes. */
  figures: number[];
};

/** Figures as the last fields of a composite value: those of {@link SUMS}, then two arrays. */
export function figuresText(figures: readonly number[]): string {
  const sums = figures.slice(0, DURATION_AT).join();
  const durations = figures.slice(DURATION_AT, FIRST_BYTE_AT).join();
  return `${sums},"{${durations}}","{${figures.slice(FIRST_BYTE_AT).join()}}"`;
}

/** The use of a key: requests count where they are accepted, costs where they end. */
export type KeyUse = {
  key: string | null;
  account: string | null;
  /** Of the last accepted request, in microseconds since 1970; null without one. */
  usedUs: number | null;
  requests: number;
  cost: number;
};

const MINUTE_US = 60_000_000;
const TOKEN_COLUMNS = [
  'input_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'output_tokens',
  'reasoning_tokens',
] as const;
const ESTIMATED: ReadonlySet<string> = new Set(
  [...USAGE_SOURCE_OF].flatMap(([code, source]) => (isEstimated(source) ? [String(code)] : [])),
);
const OUTCOME_AT: ReadonlyMap<string, number> = new Map(
  [...END_REASON_OF].map(([code, reason]) => [String(code), SUM_AT[OUTCOME_OF[reason]]]),
);

/**
 * The figures of a page by minute, account, key and model, and the use of its keys. Each end, each rejection
 * and each correction is counted once, in the minute of its event. The key, account and model of a call are
 * those of its end. Pure.
 * @throws {TypeError} where a field is no integer. {RangeError} where a sum would not be exact.
 */
export function sumUsage(events: readonly PageEvent[]): { minutes: UsageRow[]; keys: KeyUse[] } {
  const minutes = new Map<string, UsageRow>();
  const keys = new Map<string | null, KeyUse>();
  for (const { type, cells, atUs } of events) {
    if (type === ACCEPTED) {
      const use = useOf(keys, cells);
      use.requests++;
      use.usedUs = Math.max(use.usedUs ?? atUs, atUs);
    } else if (type === SETTLED || type === ABANDONED || type === REJECTED || type === ADJUSTED) {
      const us = atUs - (atUs % MINUTE_US);
      const id = `${us},${cells[AT.account]},${cells[AT.key]},${cells[AT.model]}`;
      let row = minutes.get(id);
      if (row === undefined) minutes.set(id, (row = emptyRow(us, cells)));
      const cost = cells[type === ABANDONED ? AT.hold_cost_nanousd : AT.cost_nanousd];
      count(row.figures, type, cells, cost);
      const use = useOf(keys, cells);
      if (cost != null) use.cost = addExactly(use.cost, integerOf(cost));
    }
  }
  return { minutes: [...minutes.values()], keys: [...keys.values()] };
}

function useOf(keys: Map<string | null, KeyUse>, cells: Cells): KeyUse {
  const key = cells[AT.key] ?? null;
  let use = keys.get(key);
  if (use === undefined)
    keys.set(key, (use = { key, account: cells[AT.account] ?? null, usedUs: null, requests: 0, cost: 0 }));
  return use;
}

function emptyRow(us: number, cells: Cells): UsageRow {
  return {
    us,
    account: cells[AT.account] ?? null,
    key: cells[AT.key] ?? null,
    // A request that was rejected before its model was resolved has none.
    model: cells[AT.model] ?? '',
    figures: [...NO_FIGURES],
  };
}

function count(figures: number[], type: number, cells: Cells, cost: string | null | undefined): void {
  const add = (at: number, by: number): void => {
    figures[at] = addExactly(figures[at] as number, by);
  };
  if (cost != null) add(SUM_AT.cost_nanousd, integerOf(cost));
  const upstreamCost = cells[AT.upstream_cost_nanousd] ?? cost;
  if (upstreamCost != null) add(SUM_AT.upstream_cost_nanousd, integerOf(upstreamCost));
  const endReason = cells[AT.end_reason];
  if (type === ADJUSTED) {
    add(SUM_AT.corrections, 1);
    if (cost != null) add(SUM_AT.correction_cost_nanousd, integerOf(cost));
  } else if (endReason != null) {
    if (ESTIMATED.has(cells[AT.usage_source] as string)) {
      add(SUM_AT.estimated, 1);
      if (cost != null) add(SUM_AT.estimated_cost_nanousd, integerOf(cost));
    }
    const outcomeAt = OUTCOME_AT.get(endReason);
    if (outcomeAt !== undefined) add(outcomeAt, 1);
    if (cost == null) add(SUM_AT.unpriced, 1);
  }
  for (const name of TOKEN_COLUMNS) {
    const tokens = cells[AT[name]];
    if (tokens != null) add(SUM_AT[name], integerOf(tokens));
  }
  const rejected = cells[AT.rejected_count];
  if (rejected != null) add(SUM_AT.refused, integerOf(rejected));
  const held = cells[AT.hold_tokens];
  if ((type === ABANDONED || type === ADJUSTED) && held != null)
    add(SUM_AT.abandoned_tokens, integerOf(held));
  const duration = cells[AT.duration_ms];
  if (duration != null) add(DURATION_AT + bucketOf(integerOf(duration)), 1);
  const firstByte = cells[AT.first_byte_ms];
  if (firstByte != null) add(FIRST_BYTE_AT + bucketOf(integerOf(firstByte)), 1);
}

/**
 * Adds up rows that begin in the same unit of time, by key and model, by account, or all of them. A row that
 * is alone keeps its array of figures. Pure.
 * @param unitUs its length.
 * @throws {RangeError} where a sum would not be exact.
 */
export function rollUp(
  rows: readonly UsageRow[],
  unitUs: number,
  by: 'model' | 'account' | 'none',
): UsageRow[] {
  const sums = new Map<string, UsageRow>();
  const added = new Set<UsageRow>();
  for (const row of rows) {
    const us = row.us - (row.us % unitUs);
    let id = String(us);
    if (by !== 'none') id += `,${row.account}`;
    if (by === 'model') id += `,${row.key},${row.model}`;
    const sum = sums.get(id);
    if (sum === undefined) {
      sums.set(id, { ...row, us });
      continue;
    }
    if (!added.has(sum)) sum.figures = [...sum.figures];
    added.add(sum);
    for (let index = 0; index < FIGURES; index++)
      sum.figures[index] = addExactly(sum.figures[index] as number, row.figures[index] as number);
  }
  return [...sums.values()];
}
