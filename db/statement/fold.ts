import { compareTexts, costOf, type Ending } from '#db/audit/replay/totals.ts';
import type { BillingTerms } from '#db/events/billing-events.ts';
import type { EventOf, Placed } from '#db/events/events.ts';
import { isEstimated } from '#db/fold/estimated.ts';
import { displayAmount, DOLLARS } from '#db/statement/currency.ts';
import type { DailySum } from '#db/statement/daily-sums.ts';
import {
  LINE_KINDS,
  type LineKind,
  type Statement,
  type StatementAdjustment,
  type StatementBalance,
  type StatementCounts,
  type StatementLine,
  type StatementParameters,
  type StatementTopUp,
} from '#db/statement/document.ts';
import { type BillingEvent, isBillingEvent, liveNotes } from '#db/statement/invoices.ts';
import { PrepaidTimeline } from '#db/statement/prepaid.ts';

/**
 * Computes a statement from the events of its account. A request belongs to the period in which it ended,
 * a correction to that in which it was recorded, so that figures of ended periods never change. The statement
 * of a credit note has corrections of an earlier period alone. Pure: the verifier of a statement runs the
 * same code.
 */

type Correction = EventOf<'usage.adjusted'>;
type Charge = Ending | Correction;
type Line = Omit<StatementLine, 'cost_nanousd' | 'estimated_nanousd'> & {
  cost: bigint;
  estimatedCost: bigint;
};

/** What makes a line of its own. The fields always follow one another in the same order. */
type LineIdentity = Pick<
  StatementLine,
  'kind' | 'model' | 'day' | 'key' | 'end_user' | 'reference' | 'reason'
>;

const NO_COUNTS: StatementCounts = {
  requests: 0,
  estimated: 0,
  corrections: 0,
  input_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  output_tokens: 0,
  reasoning_tokens: 0,
  abandoned_tokens: 0,
};
const COUNT_NAMES = Object.keys(NO_COUNTS) as (keyof StatementCounts)[];
/** Those that sums of days have. */
const SUMMED_COUNTS = COUNT_NAMES.filter((name) => name !== 'corrections');

/**
 * Accumulates events of one account, in the order of the log, and sums of others. Memory grows with lines,
 * not with requests.
 */
export class StatementFold {
  readonly #parameters: StatementParameters;
  readonly #from: number;
  readonly #to: number;
  readonly #lines = new Map<string, Line>();
  readonly #prepaid: PrepaidTimeline;
  readonly #keyNames = new Map<string, string>();
  /** Of a credit note: the positions of its corrections, and the calls of its period. */
  readonly #only: ReadonlySet<number> | null;
  readonly #ended = new Set<string>();
  /** The corrections of the period by position, and the invoices and credit notes of the account. */
  readonly #corrected = new Map<number, bigint>();
  readonly #billing: BillingEvent[] = [];
  readonly #topUps: StatementTopUp[] = [];
  readonly #adjustments: StatementAdjustment[] = [];
  #name = '';
  #issuer: BillingTerms | null = null;
  #rejected = 0;
  #balance = { topUps: 0n, charges: 0n, adjustments: 0n };

  constructor(parameters: StatementParameters) {
    this.#parameters = parameters;
    this.#from = Date.parse(parameters.from);
    this.#to = Date.parse(parameters.to);
    this.#prepaid = new PrepaidTimeline(parameters.account);
    this.#only = parameters.corrections === null ? null : new Set(parameters.corrections);
  }

  /** How many lines there are so far. */
  get lineCount(): number {
    return this.#lines.size;
  }

  /** Adds an event. Those of other accounts and periods change no figure. */
  add(placed: Placed): void {
    const { event, position } = placed;
    const { account, as_of: asOf } = this.#parameters;
    switch (event.type) {
      case 'billing.changed':
        if (position <= asOf) this.#issuer = event.terms;
        return;
      case 'key.created':
      case 'key.renamed':
        if (position <= asOf && event.account === account) this.#keyNames.set(event.key, event.name);
        return;
      case 'quota.adjusted':
        if (event.account === account && this.#isOfPeriod(placed)) this.#addAdjustment(event, placed);
        return;
      case 'request.rejected':
        if (this.#concerns(event) && this.#isOfPeriod(placed)) this.#rejected += event.rejected_count;
        return;
      case 'request.settled':
      case 'request.abandoned':
        if (!this.#concerns(event) || !this.#isInPeriod(placed)) return;
        if (this.#only === null) this.#addCharge(event, placed);
        else this.#ended.add(event.request);
        return;
      case 'usage.adjusted':
        if (this.#concerns(event) && this.#isStated(event, placed)) this.#addCharge(event, placed);
        return;
      default:
        if (position > asOf) return;
        if (isBillingEvent(event)) {
          if (event.account === account) this.#billing.push(event);
          return;
        }
        this.#prepaid.apply(placed);
        if (event.type === 'account.registered' && event.account === account) this.#name = event.name;
        if (event.type === 'account.topped_up' && event.account === account) this.#addTopUp(event, placed);
    }
  }

  /** Adds the sums of requests, of which no event is added. */
  addSum(sum: DailySum): void {
    if (sum.kind === 'rejected') {
      this.#rejected += Number(sum.requests);
      return;
    }
    const { kind, model, day, key, first_position: first, last_position: last } = sum;
    const identity = {
      kind,
      model,
      ...(day === undefined ? {} : { day }),
      ...(key === undefined ? {} : { key }),
    };
    const line = this.#lineOf(identity, first);
    line.first_position = Math.min(line.first_position, first);
    line.last_position = Math.max(line.last_position, last);
    for (const name of SUMMED_COUNTS) line[name] += Number(sum[name]);
    line.cost += sum.cost_nanousd;
    line.estimatedCost += sum.estimated_cost_nanousd;
    this.#balance.charges += sum.charged_nanousd;
  }

  #isInPeriod({ at }: Placed): boolean {
    return at.getTime() >= this.#from && at.getTime() < this.#to;
  }

  /** Whether a statement of all usage states an event of this time. */
  #isOfPeriod(placed: Placed): boolean {
    return this.#only === null && this.#isInPeriod(placed);
  }

  /** Whether a correction is stated: by its time; by a credit note, with its call. */
  #isStated(event: Correction, placed: Placed): boolean {
    if (this.#only === null) return this.#isInPeriod(placed);
    return this.#only.has(placed.position) && this.#ended.has(event.request);
  }

  #concerns(event: Charge | EventOf<'request.rejected'>): boolean {
    const { account, key, end_user: endUser } = this.#parameters;
    return (
      event.account === account &&
      (key === null || event.key === key) &&
      (endUser === null || event.end_user === endUser)
    );
  }

  /** Whether the statement is of the whole account. */
  get #isWhole(): boolean {
    const { key, end_user: endUser } = this.#parameters;
    return key === null && endUser === null && this.#only === null;
  }

  #addTopUp({ amount_nanousd: amount, reference }: EventOf<'account.topped_up'>, placed: Placed): void {
    if (!this.#isWhole || !this.#isInPeriod(placed)) return;
    this.#balance.topUps += BigInt(amount);
    const { position, at } = placed;
    this.#topUps.push({ position, at: at.toISOString(), amount_nanousd: String(amount), reference });
  }

  #addAdjustment(event: EventOf<'quota.adjusted'>, { position, at }: Placed): void {
    const { key, end_user: endUser } = this.#parameters;
    if (key !== null && event.key !== key) return;
    if (endUser !== null && event.end_user !== endUser) return;
    const { meter, window, amount, reason } = event;
    const ofBalance = this.#isWhole && isOfBalance(event) ? -BigInt(amount) : null;
    this.#balance.adjustments += ofBalance ?? 0n;
    this.#adjustments.push({
      position,
      at: at.toISOString(),
      meter,
      window,
      amount,
      ...(event.key === undefined ? {} : { key: event.key }),
      reason,
      ...(ofBalance === null ? {} : { balance_nanousd: String(ofBalance) }),
    });
  }

  #addCharge(event: Charge, placed: Placed): void {
    const line = this.#lineOf(this.#identityOf(event, placed), placed.position);
    const cost = chargeOf(event);
    line.cost += cost;
    line.first_position = Math.min(line.first_position, placed.position);
    line.last_position = Math.max(line.last_position, placed.position);
    if (this.#prepaid.isCharged(event.terms_position)) this.#balance.charges += cost;
    if (event.type === 'usage.adjusted') {
      if (this.#only === null) this.#corrected.set(placed.position, cost);
      line.corrections++;
      line.abandoned_tokens += event.hold_tokens ?? 0;
      return addTokens(line, event);
    }
    line.requests++;
    if (isEstimated(event.usage_source)) {
      line.estimated++;
      line.estimatedCost += cost;
    }
    if (event.type === 'request.abandoned') line.abandoned_tokens += event.hold_tokens;
    else addTokens(line, event);
  }

  #identityOf(event: Charge, { at }: Placed): LineIdentity {
    const groups = this.#parameters.group_by;
    return {
      kind: kindOf(event),
      model: event.model,
      ...(groups.includes('day') ? { day: at.toISOString().slice(0, 10) } : {}),
      ...(groups.includes('key') ? { key: event.key } : {}),
      ...(groups.includes('end_user') ? { end_user: event.end_user ?? '' } : {}),
      ...(event.type === 'usage.adjusted' ? { reference: event.reference, reason: event.reason } : {}),
    };
  }

  #lineOf(identity: LineIdentity, position: number): Line {
    const name = JSON.stringify(identity);
    const known = this.#lines.get(name);
    if (known) return known;
    const line = { ...identity, ...NO_COUNTS, first_position: position, last_position: position };
    const made: Line = { ...line, cost: 0n, estimatedCost: 0n };
    this.#lines.set(name, made);
    return made;
  }

  /** The balance of the events so far; null where there is no balance. */
  #balanceOf({ opening_balance_nanousd: opening }: StatementParameters): StatementBalance | null {
    if (opening === null) return null;
    const { topUps, charges, adjustments } = this.#balance;
    return {
      opening_nanousd: opening,
      top_ups_nanousd: String(topUps),
      charges_nanousd: String(charges),
      adjustments_nanousd: String(adjustments),
      closing_nanousd: String(BigInt(opening) + topUps - charges + adjustments),
    };
  }

  /** The part of the corrections that credit notes bill. */
  #credited(): bigint {
    let credited = 0n;
    for (const { corrections } of liveNotes(this.#billing, this.#parameters))
      for (const position of corrections) credited += this.#corrected.get(position) ?? 0n;
    return credited;
  }

  /** The statement of the events so far. */
  result(): Statement {
    const lines = [...this.#lines.values()].toSorted(inOrder);
    const sum = (use: (line: Line) => bigint): bigint => lines.reduce((total, line) => total + use(line), 0n);
    const counts = Object.fromEntries(
      COUNT_NAMES.map((name) => [name, lines.reduce((total, line) => total + line[name], 0)]),
    ) as StatementCounts;
    const cost = sum((line) => line.cost);
    const credited = this.#credited();
    const currency = this.#issuer?.currency ?? DOLLARS;
    return {
      statement: 'daybook statement 1',
      ...this.#parameters,
      account_name: this.#name,
      issuer: this.#issuer,
      lines: lines.map((line) => this.#show(line)),
      totals: {
        ...counts,
        rejected: this.#rejected,
        estimated_nanousd: String(sum((line) => line.estimatedCost)),
        correction_nanousd: String(sum((line) => (line.kind === 'correction' ? line.cost : 0n))),
        cost_nanousd: String(cost),
        credited_nanousd: String(credited),
        due_nanousd: String(cost - credited),
        amount: displayAmount(cost - credited, currency),
        currency: currency.code,
      },
      top_ups: this.#topUps,
      adjustments: this.#adjustments,
      balance: this.#balanceOf(this.#parameters),
    };
  }

  #show({ cost, estimatedCost, first_position: first, last_position: last, ...line }: Line): StatementLine {
    const keyName = line.key === undefined ? undefined : this.#keyNames.get(line.key);
    return {
      ...line,
      ...(keyName === undefined ? {} : { key_name: keyName }),
      estimated_nanousd: String(estimatedCost),
      cost_nanousd: String(cost),
      first_position: first,
      last_position: last,
    };
  }
}

/** The statement of these events, which are in the order of the log. */
export function foldStatement(parameters: StatementParameters, events: Iterable<Placed>): Statement {
  const fold = new StatementFold(parameters);
  for (const placed of events) fold.add(placed);
  return fold.result();
}

/** Whether an adjustment changed the prepaid balance of the account itself. */
export function isOfBalance(event: EventOf<'quota.adjusted'>): boolean {
  return (
    event.meter === 'cost_nanousd' &&
    event.window === 'lifetime' &&
    [event.key, event.parent, event.end_user, event.session, event.tag].every((each) => each === undefined)
  );
}

/** The charge of an event in nano-dollars. */
export const chargeOf = (event: Charge): bigint =>
  BigInt((event.type === 'usage.adjusted' ? event.cost_nanousd : costOf(event)) ?? 0);

function kindOf(event: Charge): LineKind {
  if (event.type === 'usage.adjusted') return 'correction';
  if (event.type === 'request.abandoned') return 'abandoned';
  return event.cost_nanousd === undefined ? 'unpriced' : 'priced';
}

function addTokens(line: Line, event: EventOf<'request.settled' | 'usage.adjusted'>): void {
  line.input_tokens += event.input_tokens ?? 0;
  line.cache_read_tokens += event.cache_read_tokens ?? 0;
  line.cache_write_tokens += event.cache_write_tokens ?? 0;
  line.output_tokens += event.output_tokens ?? 0;
  line.reasoning_tokens += event.reasoning_tokens ?? 0;
}

const inOrder = (one: Line, other: Line): number =>
  LINE_KINDS.indexOf(one.kind) - LINE_KINDS.indexOf(other.kind) ||
  compareTexts(one.day ?? '', other.day ?? '') ||
  compareTexts(one.key ?? '', other.key ?? '') ||
  compareTexts(one.end_user ?? '', other.end_user ?? '') ||
  compareTexts(one.model, other.model) ||
  compareTexts(one.reference ?? '', other.reference ?? '') ||
  one.first_position - other.first_position;
