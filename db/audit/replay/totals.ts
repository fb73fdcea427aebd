import { StoreError } from '#db/postgres/connect.ts';
import type { EventOf } from '#db/events/events.ts';

/** Usage and cost of requests, counted when they end. Pure. */

export type Ending = EventOf<'request.settled' | 'request.abandoned'>;
/** The events that change totals. */
export type Counted = Ending | EventOf<'request.rejected' | 'usage.adjusted'>;

/** Totals. Tokens are those of settled requests, except `abandoned_tokens`. */
export type Totals = {
  /** Requests that ended, including abandoned ones. */
  requests: number;
  /** Requests that were rejected. They are not in `requests`. */
  refused: number;
  /** Requests that ended without a cost, since their model had no price set. */
  unpriced: number;
  abandoned: number;
  input_tokens: number;
  cache_read_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
  /** The charges of abandoned requests. */
  abandoned_tokens: number;
  /** Corrections of ended requests, whose amounts are in the other figures. */
  corrections: number;
  /** The cost of settled requests and the reservations of abandoned ones, corrected. */
  cost_nanousd: bigint;
  /** The amounts that corrections added to the cost. */
  correction_cost_nanousd: bigint;
};

const COUNT_NAMES = [
  'requests',
  'refused',
  'unpriced',
  'abandoned',
  'input_tokens',
  'cache_read_tokens',
  'output_tokens',
  'reasoning_tokens',
  'abandoned_tokens',
  'corrections',
] as const satisfies readonly (keyof Totals)[];
const COST_NAMES = ['cost_nanousd', 'correction_cost_nanousd'] as const;
export const TOTAL_NAMES = [...COUNT_NAMES, ...COST_NAMES] as const;

export function zeroTotals(): Totals {
  return {
    requests: 0,
    refused: 0,
    unpriced: 0,
    abandoned: 0,
    input_tokens: 0,
    cache_read_tokens: 0,
    output_tokens: 0,
    reasoning_tokens: 0,
    abandoned_tokens: 0,
    corrections: 0,
    cost_nanousd: 0n,
    correction_cost_nanousd: 0n,
  };
}

/** The cost of an ended request in nano-dollars; null if its model had no price set. */
export const costOf = (event: Ending): number | null =>
  (event.type === 'request.settled' ? event.cost_nanousd : event.hold_cost_nanousd) ?? null;

/** Adds an event to totals. */
export function count(totals: Totals, event: Counted): void {
  if (event.type === 'request.rejected') {
    totals.refused += event.rejected_count;
    return;
  }
  if (event.type === 'usage.adjusted') {
    totals.corrections++;
    totals.cost_nanousd += BigInt(event.cost_nanousd ?? 0);
    totals.correction_cost_nanousd += BigInt(event.cost_nanousd ?? 0);
    totals.abandoned_tokens += event.hold_tokens ?? 0;
    totals.input_tokens += event.input_tokens ?? 0;
    totals.cache_read_tokens += event.cache_read_tokens ?? 0;
    totals.output_tokens += event.output_tokens ?? 0;
    totals.reasoning_tokens += event.reasoning_tokens ?? 0;
    return;
  }
  totals.requests++;
  const cost = costOf(event);
  if (cost === null) totals.unpriced++;
  else totals.cost_nanousd += BigInt(cost);
  if (event.type === 'request.abandoned') {
    totals.abandoned++;
    totals.abandoned_tokens += event.hold_tokens;
    return;
  }
  totals.input_tokens += event.input_tokens;
  totals.cache_read_tokens += event.cache_read_tokens;
  totals.output_tokens += event.output_tokens;
  totals.reasoning_tokens += event.reasoning_tokens;
}

/** Adds totals to a sum. */
export function addTo(sum: Totals, totals: Totals): void {
  for (const name of COST_NAMES) sum[name] += totals[name];
  for (const name of COUNT_NAMES) sum[name] += totals[name];
}

/** Totals of one account, key and model; the model is empty for requests rejected before it was read. */
export type UsageRow = { account: string; key: string; model: string } & Totals;

/** Usage by account, key and model. Memory grows with those, not with the log. */
export class Usage {
  readonly #accounts = new Map<string, Map<string, Map<string, Totals>>>();

  apply(event: Counted): void {
    count(this.#totalsOf(event.account, event.key, event.model ?? ''), event);
  }

  #totalsOf(account: string, key: string, model: string): Totals {
    let keys = this.#accounts.get(account);
    if (keys === undefined) this.#accounts.set(account, (keys = new Map()));
    let models = keys.get(key);
    if (models === undefined) keys.set(key, (models = new Map()));
    let totals = models.get(model);
    if (totals === undefined) models.set(model, (totals = zeroTotals()));
    return totals;
  }

  /** The rows in the order of their names. @param only the id of the one account to include. */
  rows(only?: string): UsageRow[] {
    const rows: UsageRow[] = [];
    for (const [account, keys] of this.#accounts) {
      if (only !== undefined && account !== only) continue;
      for (const [key, models] of keys)
        for (const [model, totals] of models) rows.push({ account, key, model, ...totals });
    }
    return rows.toSorted(
      (one, other) =>
        compareTexts(one.account, other.account) ||
        compareTexts(one.key, other.key) ||
        compareTexts(one.model, other.model),
    );
  }
}

/** Compares by code units, as the database sorts names. */
export function compareTexts(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

/** The sum over rows. @throws {StoreError} when a sum exceeds the safe integer range. */
export function totalOf(rows: readonly Totals[]): Totals {
  const total = zeroTotals();
  for (const row of rows) addTo(total, row);
  for (const name of COUNT_NAMES)
    if (!Number.isSafeInteger(total[name]))
      throw new StoreError(`the sum of ${name} exceeds the safe integer range`);
  return total;
}
