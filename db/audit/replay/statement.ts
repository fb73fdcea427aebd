import { compareTexts, costOf, type Ending, type Totals } from '#db/audit/replay/totals.ts';
import type { EventOf, Placed } from '#db/events/events.ts';
import { type CallFilter, type FilteredCall, matchesCall } from '#db/fold/call-filter.ts';
import { isEstimated } from '#db/fold/estimated.ts';
import { OUTCOME_OF } from '#db/projections/outcomes.ts';

/**
 * The usage and cost of an account in a month, from the events of that month alone. A request belongs to the
 * month (UTC) in which it ended, whenever it was accepted. So each request belongs to one month, and the
 * months add up to the log. Pure.
 */

/** Requests of one key and model. Tokens are those settled, or those reserved for abandoned requests. */
export type Line = {
  kind: 'priced' | 'unpriced' | 'abandoned';
  key: string;
  model: string;
  cache_write_tokens: number;
  /** Requests whose usage the provider did not report, and their part of the cost. */
  estimated: number;
  estimated_cost_nanousd: bigint;
  /** What all attempts cost the operator; `cost_nanousd` is the charge. */
  upstream_cost_nanousd: bigint;
} & Omit<Totals, 'refused' | 'unpriced' | 'abandoned'>;

/** The kinds of lines, in the order of a statement. */
export const KINDS: readonly Line['kind'][] = ['priced', 'abandoned', 'unpriced'];

/** A change of the usage that a quota counts. It changes no line: lines are what requests used and cost. */
export type Adjustment = { position: number } & Pick<
  EventOf<'usage.adjusted'>,
  'key' | 'meter' | 'amount' | 'window' | 'corrects' | 'reason'
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
 * Accumulates the statements of all accounts for one month. Memory grows with accounts, keys, models and
 * adjustments.
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
    if (event.type === 'usage.adjusted') {
      if (this.#concerns(event)) this.#addAdjustment(event, position);
    } else if (event.type === 'request.rejected') {
      if (matchesCall(this.#filter, callOf(event)))
        this.#refused.set(event.account, (this.#refused.get(event.account) ?? 0) + event.rejected_count);
    } else if (event.type === 'request.settled' || event.type === 'request.abandoned') {
      if (matchesCall(this.#filter, callOf(event))) this.#addEnding(event);
    }
  }

  /** Adjustments are of an account or key: a filter by anything else excludes all. */
  #concerns({ account, key }: EventOf<'usage.adjusted'>): boolean {
    return Object.entries(this.#filter).every(
      ([field, value]) => value === undefined || value === { account, key }[field],
    );
  }

  #addAdjustment(event: EventOf<'usage.adjusted'>, position: number): void {
    const { account, key, meter, amount, window, corrects, reason } = event;
    const own = this.#adjustments.get(account) ?? [];
    this.#adjustments.set(account, own);
    const optional = {
      ...(key === undefined ? {} : { key }),
      ...(corrects === undefined ? {} : { corrects }),
    };
    own.push({ position, ...optional, meter, amount, window, reason });
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

  #lineOf({ account, key, model }: Ending, kind: Line['kind']): Line {
    const lines = this.#lines.get(account) ?? new Map<string, Line>();
    this.#lines.set(account, lines);
    const name = `${kind} ${key} ${model}`;
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
        compareTexts(one.model, other.model),
    );
    return {
      account,
      lines,
      adjustments: this.#adjustments.get(account) ?? [],
      refused: this.#refused.get(account) ?? 0,
      requests: lines.reduce((total, line) => total + line.requests, 0),
      estimated: lines.reduce((total, line) => total + line.estimated, 0),
      ...(Object.fromEntries(
        COSTS.map((name) => [name, lines.reduce((total, line) => total + line[name], 0n)]),
      ) as Record<(typeof COSTS)[number], bigint>),
    };
  }
}

/** A call at its end, as the filter reads it. */
function callOf(event: Ending | EventOf<'request.rejected'>): FilteredCall {
  const { account, key, model = null, route = null, end_user = null, session = null, tags = [] } = event;
  const call = { account, key, model, route, end_user, session, tags };
  const isSettled = event.type === 'request.settled';
  return event.type === 'request.rejected'
    ? { ...call, upstream: null, outcome: 'refused', status: event.status, error_code: event.error_code }
    : {
        ...call,
        upstream: (isSettled ? event.upstream : undefined) ?? null,
        outcome: OUTCOME_OF[event.end_reason],
        status: isSettled ? event.status : null,
        error_code: null,
      };
}

function addTokens(line: Line, event: EventOf<'request.settled'>): void {
  line.input_tokens += event.input_tokens;
  line.cache_write_tokens += event.cache_write_tokens ?? 0;
  line.cache_read_tokens += event.cache_read_tokens;
  line.output_tokens += event.output_tokens;
  line.reasoning_tokens += event.reasoning_tokens;
}
