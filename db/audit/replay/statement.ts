import { compareTexts, type Counted, costOf, type Ending, type Totals } from '#db/audit/replay/totals.ts';
import type { EventOf, Placed } from '#db/events/events.ts';
import { type CallFilter, type FilteredCall, matchesCall } from '#db/fold/call-filter.ts';
import { isEstimated } from '#db/fold/estimated.ts';
import { OUTCOME_OF } from '#db/projections/outcomes.ts';

/**
 * The usage and cost of an account in a month, from the events of that month alone. A request belongs to the
 * month (UTC) in which it ended, whenever it was accepted, and a correction to the month in which it was
 * recorded. So each belongs to one month, statements of past months stay as they are, and the months add up
 * to the log. Pure.
 */

/**
 * Requests of one key and model, or corrections of such requests with one reference. Tokens are those
 * settled, or those reserved for abandoned requests; of corrections, the added ones.
 */
export type Line = {
  kind: 'priced' | 'unpriced' | 'abandoned' | 'correction';
  key: string;
  model: string;
  cache_write_tokens: number;
  /** Requests whose usage the provider did not report, and their part of the cost. */
  estimated: number;
  estimated_cost_nanousd: bigint;
  /** What all attempts cost the operator; `cost_nanousd` is the charge. */
  upstream_cost_nanousd: bigint;
  /** Of corrections: where they come from, and why. */
  reference?: string;
  reason?: string;
} & Omit<Totals, 'refused' | 'unpriced' | 'abandoned' | 'correction_cost_nanousd'>;

/** The kinds of lines, in the order of a statement. */
export const KINDS: readonly Line['kind'][] = ['priced', 'abandoned', 'unpriced', 'correction'];

/** A change of the usage that a quota counts. It changes no line: lines are what requests used and cost. */
export type Adjustment = { position: number } & Pick<
  EventOf<'quota.adjusted'>,
  'key' | 'meter' | 'amount' | 'window' | 'reason'
>;

export type Statement = {
  account: string;
  /** In the order of kinds, keys and models. */
  lines: Line[];
  /** In the order of the log. */
  adjustments: Adjustment[];
  /** Requests that were rejected, at no cost. */
  refused: number;
  requests: number;
  estimated: number;
  corrections: number;
} & Record<(typeof COSTS)[number], bigint>;

const COSTS = ['cost_nanousd', 'estimated_cost_nanousd', 'upstream_cost_nanousd'] as const;

/** A UTC month such as `2026-11`. `from` is inclusive, `until` exclusive. */
export type Month = { name: string; from: Date; until: Date };

/** @returns null if the text is not a month. */
export function parseMonth(text: string): Month | null {
  const match = /^(\d{4})-(0[1-9]|1[0-2])$/.exec(text);
  if (!match) return null;
  const [year, month] = [Number(match[1]), Number(match[2])];
  return {
    name: text,
    from: new Date(Date.UTC(year, month - 1, 1)),
    until: new Date(Date.UTC(year, month, 1)),
  };
}

/**
 * Accumulates the statements of all accounts for one month. Memory grows with accounts, keys, models,
 * adjustments and references of corrections.
 */
export class Statements {
  readonly #month: Month;
  readonly #filter: CallFilter;
  readonly #lines = new Map<string, Map<string, Line>>();
  readonly #refused = new Map<string, number>();
  readonly #adjustments = new Map<string, Adjustment[]>();
  /** The sum computed independently of the lines, which must add up to it. */
  totalNanousd = 0n;
  endings = 0;

  /** @param filter the requests to include; by default all. */
  constructor(month: Month, filter: CallFilter = {}) {
    this.#month = month;
    this.#filter = filter;
  }

  /** Adds an event of any time. Events of other months are ignored. */
  add({ event, at, position }: Placed): void {
    if (at < this.#month.from || at >= this.#month.until) return;
    if (event.type === 'quota.adjusted') {
      if (this.#concerns(event)) this.#addAdjustment(event, position);
    } else if (event.type === 'usage.adjusted') {
      if (matchesCall(this.#filter, callOf(event))) this.#addCorrection(event);
    } else if (event.type === 'request.rejected') {
      if (matchesCall(this.#filter, callOf(event)))
        this.#refused.set(event.account, (this.#refused.get(event.account) ?? 0) + event.rejected_count);
    } else if (event.type === 'request.settled' || event.type === 'request.abandoned') {
      if (matchesCall(this.#filter, callOf(event))) this.#addEnding(event);
    }
  }

  /** Adjustments are of an account or key: a filter by anything else excludes all. */
  #concerns({ account, key }: EventOf<'quota.adjusted'>): boolean {
    return Object.entries(this.#filter).every(
      ([field, value]) => value === undefined || value === { account, key }[field],
    );
  }

  #addAdjustment(event: EventOf<'quota.adjusted'>, position: number): void {
    const { account, key, meter, amount, window, reason } = event;
    const own = this.#adjustments.get(account) ?? [];
    this.#adjustments.set(account, own);
    own.push({ position, ...(key === undefined ? {} : { key }), meter, amount, window, reason });
  }

  #addEnding(event: Ending): void {
    const cost = costOf(event);
    this.endings++;
    this.totalNanousd += BigInt(cost ?? 0);
    const line = this.#lineOf(
      event,
      event.type === 'request.abandoned' ? 'abandoned' : cost === null ? 'unpriced' : 'priced',
    );
    line.requests++;
    line.cost_nanousd += BigInt(cost ?? 0);
    const upstreamCost = event.type === 'request.settled' ? event.upstream_cost_nanousd : undefined;
    line.upstream_cost_nanousd += BigInt(upstreamCost ?? cost ?? 0);
    if (isEstimated(event.usage_source)) {
      line.estimated++;
      line.estimated_cost_nanousd += BigInt(cost ?? 0);
    }
    if (event.type === 'request.abandoned') line.abandoned_tokens += event.hold_tokens;
    else addTokens(line, event);
  }

  #addCorrection(event: EventOf<'usage.adjusted'>): void {
    const { reference, reason, cost_nanousd: cost = 0 } = event;
    this.totalNanousd += BigInt(cost);
    const line = this.#lineOf(event, 'correction', { reference, reason });
    line.corrections++;
    line.cost_nanousd += BigInt(cost);
    line.upstream_cost_nanousd += BigInt(event.upstream_cost_nanousd ?? cost);
    line.abandoned_tokens += event.hold_tokens ?? 0;
    addTokens(line, event);
  }

  #lineOf(
    { account, key, model }: Ending | EventOf<'usage.adjusted'>,
    kind: Line['kind'],
    origin: Pick<Line, 'reference' | 'reason'> = {},
  ): Line {
    const lines = this.#lines.get(account) ?? new Map<string, Line>();
    this.#lines.set(account, lines);
    const name = JSON.stringify([kind, key, model, origin]);
    const known = lines.get(name);
    if (known) return known;
    const line: Line = {
      kind,
      key,
      model,
      requests: 0,
      input_tokens: 0,
      cache_read_tokens: 0,
      cache_write_tokens: 0,
      output_tokens: 0,
      reasoning_tokens: 0,
      abandoned_tokens: 0,
      cost_nanousd: 0n,
      estimated: 0,
      estimated_cost_nanousd: 0n,
      upstream_cost_nanousd: 0n,
      corrections: 0,
      ...origin,
    };
    lines.set(name, line);
    return line;
  }

  /** The ids of accounts with a statement that isn't empty, in order. */
  get accounts(): string[] {
    return [
      ...new Set([this.#lines, this.#refused, this.#adjustments].flatMap((each) => [...each.keys()])),
    ].toSorted();
  }

  /** The statement of an account; without lines if it had no usage. */
  of(account: string): Statement {
    const lines = [...(this.#lines.get(account)?.values() ?? [])].toSorted(
      (one, other) =>
        KINDS.indexOf(one.kind) - KINDS.indexOf(other.kind) ||
        compareTexts(one.key, other.key) ||
        compareTexts(one.model, other.model) ||
        compareTexts(one.reference ?? '', other.reference ?? ''),
    );
    return {
      account,
      lines,
      adjustments: this.#adjustments.get(account) ?? [],
      refused: this.#refused.get(account) ?? 0,
      requests: lines.reduce((total, line) => total + line.requests, 0),
      estimated: lines.reduce((total, line) => total + line.estimated, 0),
      corrections: lines.reduce((total, line) => total + line.corrections, 0),
      ...(Object.fromEntries(
        COSTS.map((name) => [name, lines.reduce((total, line) => total + line[name], 0n)]),
      ) as Record<(typeof COSTS)[number], bigint>),
    };
  }
}

/** A call at its end, as the filter reads it. */
function callOf(event: Counted): FilteredCall {
  const { account, key, model = null, route = null, end_user = null, session = null, tags = [] } = event;
  const call = { account, key, model, route, end_user, session, tags };
  const isAnswered = event.type === 'request.settled' || event.type === 'usage.adjusted';
  return event.type === 'request.rejected'
    ? { ...call, upstream: null, outcome: 'refused', status: event.status, error_code: event.error_code }
    : {
        ...call,
        upstream: (isAnswered ? event.upstream : undefined) ?? null,
        outcome: OUTCOME_OF[event.end_reason],
        status: (isAnswered ? event.status : undefined) ?? null,
        error_code: null,
      };
}

function addTokens(line: Line, event: EventOf<'request.settled' | 'usage.adjusted'>): void {
  line.input_tokens += event.input_tokens ?? 0;
  line.cache_write_tokens += event.cache_write_tokens ?? 0;
  line.cache_read_tokens += event.cache_read_tokens ?? 0;
  line.output_tokens += event.output_tokens ?? 0;
  line.reasoning_tokens += event.reasoning_tokens ?? 0;
}
