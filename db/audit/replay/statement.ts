import { compareTexts, costOf, type Ending, type Figures } from '#db/audit/replay/figures.ts';
import type { EventOf, Placed } from '#db/events/events.ts';

/**
 * What an account used in a month and what that cost, from the events of the month alone. A call
 * belongs to the month in which its ending is in the log (UTC), whenever it began: so each ending
 * belongs to one month, and the months together are the log. Pure.
 */

/** Calls of one key and model. Tokens are those that were settled; of abandoned calls, their holds. */
export type Line = { kind: 'priced' | 'unpriced' | 'abandoned'; key: string; model: string } & Omit<
  Figures,
  'refused' | 'unpriced' | 'abandoned'
>;

/** The kinds of lines, in the order of a statement. */
export const KINDS: readonly Line['kind'][] = ['priced', 'abandoned', 'unpriced'];

export type Statement = {
  account: string;
  /** In the order of kinds, keys and models. */
  lines: Line[];
  /** Calls that were refused: they cost nothing. */
  refused: number;
  requests: number;
  cost_microusd: number;
};

/** A UTC month such as `2026-11`, from its first moment up to, but without, the next one's. */
export type Month = { name: string; from: Date; until: Date };

/** @returns null when the text is no month. */
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

/** Gathers the statements of all accounts for one month; it grows with accounts, keys and models. */
export class Statements {
  readonly #month: Month;
  readonly #lines = new Map<string, Map<string, Line>>();
  readonly #refused = new Map<string, number>();
  /** Summed one by one and apart from the lines: what those have to come to. */
  totalMicrousd = 0n;
  endings = 0;

  constructor(month: Month) {
    this.#month = month;
  }

  /** Takes in an event of any time; those of other months change nothing. */
  take({ event, at }: Placed): void {
    if (at < this.#month.from || at >= this.#month.until) return;
    if (event.type === 'request.rejected')
      this.#refused.set(event.account, (this.#refused.get(event.account) ?? 0) + event.refused_count);
    else if (event.type === 'request.settled' || event.type === 'request.abandoned') this.#takeEnding(event);
  }

  #takeEnding(event: Ending): void {
    const cost = costOf(event);
    this.endings++;
    this.totalMicrousd += BigInt(cost ?? 0);
    const line = this.#lineOf(
      event,
      event.type === 'request.abandoned' ? 'abandoned' : cost === null ? 'unpriced' : 'priced',
    );
    line.requests++;
    line.cost_microusd += cost ?? 0;
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
      cached_tokens: 0,
      output_tokens: 0,
      reasoning_tokens: 0,
      abandoned_tokens: 0,
      cost_microusd: 0,
    };
    lines.set(name, line);
    return line;
  }

  /** The accounts that a statement has something of, in the order of their ids. */
  get accounts(): string[] {
    return [...new Set([...this.#lines.keys(), ...this.#refused.keys()])].toSorted();
  }

  /** The statement of an account, empty where there was nothing. */
  of(account: string): Statement {
    const lines = [...(this.#lines.get(account)?.values() ?? [])].toSorted(
      (one, other) =>
        KINDS.indexOf(one.kind) - KINDS.indexOf(other.kind) ||
        compareTexts(one.key, other.key) ||
        compareTexts(one.model, other.model),
    );
    const sum = (name: 'requests' | 'cost_microusd'): number =>
      lines.reduce((total, line) => total + line[name], 0);
    return {
      account,
      lines,
      refused: this.#refused.get(account) ?? 0,
      requests: sum('requests'),
      cost_microusd: sum('cost_microusd'),
    };
  }
}

function addTokens(line: Line, event: EventOf<'request.settled'>): void {
  line.input_tokens += event.input_tokens;
  line.cached_tokens += event.cached_tokens;
  line.output_tokens += event.output_tokens;
  line.reasoning_tokens += event.reasoning_tokens;
}
