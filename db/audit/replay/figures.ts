import { StoreError } from '#db/postgres/connect.ts';
import type { EventOf } from '#db/events/events.ts';

/** What calls used and cost, counted from their endings. Pure. */

export type Ending = EventOf<'request.settled' | 'request.abandoned'>;

/** Sums of the log. Tokens and money are those of settled calls, but for `abandoned_tokens`. */
export type Figures = {
  /** Calls that have ended, abandoned ones among them. */
  requests: number;
  /** Calls that were refused, and so never were any. */
  refused: number;
  /** Endings without a cost: their model had no price. */
  unpriced: number;
  abandoned: number;
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
  /** Holds of abandoned calls, which stay charged in full. */
  abandoned_tokens: number;
  /** Of settled calls their cost, of abandoned ones their hold. */
  cost_microusd: number;
};

export const FIGURES = [
  'requests',
  'refused',
  'unpriced',
  'abandoned',
  'input_tokens',
  'cached_tokens',
  'output_tokens',
  'reasoning_tokens',
  'abandoned_tokens',
  'cost_microusd',
] as const satisfies readonly (keyof Figures)[];

export function noFigures(): Figures {
  return {
    requests: 0,
    refused: 0,
    unpriced: 0,
    abandoned: 0,
    input_tokens: 0,
    cached_tokens: 0,
    output_tokens: 0,
    reasoning_tokens: 0,
    abandoned_tokens: 0,
    cost_microusd: 0,
  };
}

/** What an ending cost in micro-dollars; null where its model had no price. */
export const costOf = (event: Ending): number | null =>
  (event.type === 'request.settled' ? event.cost_microusd : event.hold_cost_microusd) ?? null;

/** Counts one more event into figures. */
export function count(figures: Figures, event: Ending | EventOf<'request.rejected'>): void {
  if (event.type === 'request.rejected') {
    figures.refused += event.refused_count;
    return;
  }
  figures.requests++;
  const cost = costOf(event);
  if (cost === null) figures.unpriced++;
  else figures.cost_microusd += cost;
  if (event.type === 'request.abandoned') {
    figures.abandoned++;
    figures.abandoned_tokens += event.hold_tokens;
    return;
  }
  figures.input_tokens += event.input_tokens;
  figures.cached_tokens += event.cached_tokens;
  figures.output_tokens += event.output_tokens;
  figures.reasoning_tokens += event.reasoning_tokens;
}

/** Adds figures to others. */
export function addTo(sum: Figures, figures: Figures): void {
  for (const name of FIGURES) sum[name] += figures[name];
}

/** Figures of one account, key and model. The model is empty where calls were refused before it mattered. */
export type UsageRow = { account: string; key: string; model: string } & Figures;

/** Usage by account, key and model: it grows with those, and not with the log. */
export class Usage {
  readonly #accounts = new Map<string, Map<string, Map<string, Figures>>>();

  take(event: Ending | EventOf<'request.rejected'>): void {
    count(
      this.#figuresOf(event.account, event.key, event.type === 'request.rejected' ? '' : event.model),
      event,
    );
  }

  #figuresOf(account: string, key: string, model: string): Figures {
    let keys = this.#accounts.get(account);
    if (keys === undefined) this.#accounts.set(account, (keys = new Map()));
    let models = keys.get(key);
    if (models === undefined) keys.set(key, (models = new Map()));
    let figures = models.get(model);
    if (figures === undefined) models.set(model, (figures = noFigures()));
    return figures;
  }

  /** In the order of their names; of one account alone where one is named. */
  rows(only?: string): UsageRow[] {
    const rows: UsageRow[] = [];
    for (const [account, keys] of this.#accounts) {
      if (only !== undefined && account !== only) continue;
      for (const [key, models] of keys)
        for (const [model, figures] of models) rows.push({ account, key, model, ...figures });
    }
    return rows.toSorted(
      (one, other) =>
        compareTexts(one.account, other.account) ||
        compareTexts(one.key, other.key) ||
        compareTexts(one.model, other.model),
    );
  }
}

/** As the database sorts names: by their code units. */
export function compareTexts(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

/** What rows come to in all. @throws {StoreError} when a sum is beyond what a number holds exactly. */
export function totalOf(rows: readonly Figures[]): Figures {
  const total = noFigures();
  for (const row of rows) addTo(total, row);
  for (const name of FIGURES)
    if (!Number.isSafeInteger(total[name]))
      throw new StoreError(`${name} of the log come to more than a number holds exactly`);
  return total;
}
