import { isUncharged } from '#db/events/admission.ts';
import { type EventOf, isControl, type Placed, type RequestEvent } from '#db/events/events.ts';
import { adjustedSubject } from '#db/events/quota-events.ts';
import { type Figures, NO_CORRECTION } from '#db/fold/correction.ts';
import { amountsOf, unitsReserved } from '#db/limits/meters.ts';
import type { SubjectLimits } from '#db/limits/limits.ts';
import { minuteOf } from '#db/limits/windows.ts';
import { costBound } from '#db/pricing/bound.ts';
import { type Read, UnreadableEventError } from '#db/log/read.ts';
import type { DifferingCall, ShortLimit } from '#server/contract/backtest.ts';
import {
  abandon,
  type Allowance,
  Allowances,
  charge,
  type Charged,
  correct,
  freeOf,
  grow,
  reserve,
  settle,
} from '#server/backtest/allowances.ts';
import { type CallTerms, Candidate, type Changes } from '#server/backtest/candidate.ts';
import { History, type PastOf } from '#server/backtest/history.ts';
import { forbiddenBy, type SizedCall, sizeOf } from '#server/backtest/decide.ts';
import { isEvaluated, Tally } from '#server/backtest/tally.ts';
import type { CallNeed } from '#server/limits/waiting-call.ts';
import { limitCode } from '#server/limits/limit-error.ts';
import { tokenLimitOf } from '#server/relay/call-estimate.ts';
import { costsOf } from '#server/read-model/reprice.ts';

/** An open call. */
type Open = {
  /** Null: it was rejected by the changes. */
  charged: Charged | null;
  past: PastOf;
  terms: CallTerms;
  sized: SizedCall;
  /** The tokens that the log has reserved for it. */
  recordedHold: number;
  /** The limit on its reply that a hard quota leaves; null: none. */
  outputMax: number | null;
};

export type BacktestOptions = {
  changes: Changes;
  /** The period, in milliseconds since 1970: from the first, until before the second. */
  fromMs: number;
  toMs: number;
  /** The corrections of requests, as far as there are any. */
  corrections: ReadonlyMap<string, Figures>;
  /** Called with each call whose outcome differs, in the order of the log. */
  onDifference: (call: DifferingCall) => void;
};

/** Of a call that is rejected. */
const NO_COSTS: ReturnType<typeof costsOf> = { charge: 0, upstreamCost: 0 };
/** Rejected requests that are remembered, so that no correction of one counts. The oldest are forgotten. */
const REJECTED_MAX = 1_000_000;

/**
 * Decides recorded calls again, one after the other in the order of the log, under other terms, prices or
 * models. Before the period calls are charged as recorded, so that its windows begin with their usage. Memory
 * grows with accounts, keys, open calls, and the subjects of windows that aren't over. Pure.
 */
export class Backtest {
  readonly candidate: Candidate;
  readonly tally = new Tally();
  readonly #options: BacktestOptions;
  readonly #allowances = new Allowances();
  readonly #history = new History();
  readonly #open = new Map<string, Open>();
  readonly #rejected = new Set<string>();

  constructor(options: BacktestOptions) {
    this.#options = options;
    this.candidate = new Candidate(options.changes);
  }

  /** Applies the next event of the log. Those of newer versions that can't be read are passed over. */
  apply(read: Read): void {
    if (read instanceof UnreadableEventError) return;
    if (isControl(read)) return this.#control(read);
    const event = read.event as RequestEvent;
    switch (event.type) {
      case 'request.accepted':
        return this.#accept(read as Placed<typeof event>);
      case 'request.extended':
        return this.#extend(event, minuteOf(read.at.getTime()));
      case 'request.settled':
        return this.#settle(event, read);
      case 'request.abandoned':
        return this.#abandon(event, read);
      case 'request.rejected':
        return this.#rejectedAsRecorded(read as Placed<typeof event>);
      case 'tokens.counted':
      case 'workload.exchanged':
        return;
      case 'usage.adjusted':
        return this.#correct(event, minuteOf(read.at.getTime()));
    }
  }

  #isIn({ at }: { at: Date }): boolean {
    const { fromMs, toMs } = this.#options;
    return at.getTime() >= fromMs && at.getTime() < toMs;
  }

  #control(placed: Parameters<Candidate['apply']>[0]): void {
    this.candidate.apply(placed);
    const { event } = placed;
    if (event.type !== 'quota.adjusted') return;
    const { meter, window, reset_position: reset, window_start: start, amount } = event;
    this.#allowances.adjust(adjustedSubject(event), { meter, window, reset }, start, amount);
  }

  /** The limits of a call under the changes. */
  #subjectsOf(
    call: EventOf<'request.accepted' | 'request.rejected' | 'usage.adjusted'>,
  ): readonly SubjectLimits[] {
    const key = this.candidate.recorded.key(call.key);
    const { charged } = this.candidate;
    // Its account may have another parent since then.
    const parents = call.type === 'request.rejected' ? undefined : (call.parents ?? []);
    return key === undefined
      ? charged.ofAccount(call.account, call, parents)
      : charged.of(key, call, parents);
  }

  #accept(placed: Placed<EventOf<'request.accepted'>>): void {
    const { event, at, instance } = placed;
    const { candidate } = this;
    const terms = candidate.callTerms(event.account, event.key, event.model);
    const past = this.#history.of(instance, event.key, terms);
    const minute = event.admitted_minute ?? minuteOf(at.getTime());
    const subjects = this.#subjectsOf(event);
    const allowances = this.#allowances.of(subjects, minute);
    const sized = sizeOf(candidate, event, terms, past, subjects, minute);
    const open: Open = {
      charged: null,
      past,
      terms,
      sized,
      recordedHold: event.hold_tokens,
      outputMax: null,
    };
    this.#open.set(event.request, open);
    if (!this.#isIn(placed)) {
      open.charged = charge(chargedBy(allowances, event), amountsOf(event));
      return;
    }
    this.tally.calls.admitted++;
    const forbidden = forbiddenBy(candidate, event, terms, subjects);
    const decided = forbidden === null ? reserve(allowances, sized.need) : null;
    if (decided !== null && 'units' in decided) {
      open.charged = decided;
      if (sized.isHard) open.outputMax = tokenLimitOf({ ...sized, choices: 1 }, decided.amounts);
      const observed = chargedBy(decided.observed, event);
      if (observed.length > 0) this.#differs(placed, 'observed', null, observed, sized);
      return;
    }
    past.diverges();
    this.#remember(event.request);
    this.#differs(placed, 'rejected', forbidden, decided ?? [], sized);
  }

  #remember(request: string): void {
    this.#rejected.add(request);
    if (this.#rejected.size > REJECTED_MAX)
      this.#rejected.delete(this.#rejected.values().next().value as string);
  }

  #differs(
    {
      event,
      position,
      at,
    }: Pick<Placed<EventOf<'request.accepted' | 'request.rejected'>>, 'event' | 'position' | 'at'>,
    outcome: DifferingCall['outcome'],
    code: string | null,
    short: readonly Allowance[],
    { need }: Pick<SizedCall, 'need'>,
  ): void {
    const { request, account, key, model = null, end_user = null } = event;
    const [first] = short;
    const call: DifferingCall = {
      ...{ position, at: at.toISOString(), request, account, key, end_user, model, outcome },
      error_code: first === undefined ? code : limitCode(first.limit.window),
      limits: short.map((each) => shortLimit(each, need)),
      count: event.type === 'request.rejected' ? event.rejected_count : 1,
    };
    this.tally.add(call);
    this.#options.onDifference(call);
  }

  #extend(event: EventOf<'request.extended'>, minute: number): void {
    const open = this.#open.get(event.request);
    if (!open?.charged || open.sized.isHard) return;
    const more = event.hold_tokens - open.recordedHold;
    open.recordedHold = event.hold_tokens;
    const { cost, promptTokens } = open.sized;
    const replyTokens = open.charged.amounts.tokens - promptTokens;
    const bound = (tokens: number): number => (cost ? costBound(cost, promptTokens, tokens) : 0);
    grow(open.charged, { tokens: more, cost: bound(replyTokens + more) - bound(replyTokens) }, minute);
  }

  #settle(recorded: EventOf<'request.settled'>, placed: Pick<Placed, 'at' | 'position'>): void {
    const open = this.#open.get(recorded.request);
    this.#open.delete(recorded.request);
    const event = open === undefined ? recorded : shorten(recorded, open.outputMax);
    const terms = open?.terms ?? this.candidate.callTerms(recorded.account, recorded.key, recorded.model);
    const isOther = event !== recorded || terms.isRepriced;
    const costs = isOther && terms.price !== null ? costsOf(terms.price, event, NO_CORRECTION) : null;
    if (open?.charged) {
      const { charged, past } = open;
      const cost = isOther ? costs?.charge : event.cost_nanousd;
      settle(charged, {
        input_tokens: event.input_tokens,
        output_tokens: event.output_tokens,
        cost_nanousd: cost,
      });
      if (event.end_reason === 'completed') past.learn(event.input_tokens, event.output_tokens, cost ?? 0);
      if (event !== recorded)
        this.#differs({ event: asCall(event), ...placed }, 'shortened', null, [], open.sized);
    }
    if (!this.#isIn(placed)) return;
    const isRejected = open !== undefined && open.charged === null;
    this.#addCosts(recorded, event, terms, isRejected ? NO_COSTS : costs);
  }

  /** @param costs without corrections; null: those that were recorded. */
  #addCosts(
    recorded: EventOf<'request.settled'>,
    event: EventOf<'request.settled'>,
    { price }: CallTerms,
    costs: ReturnType<typeof costsOf> | null,
  ): void {
    const { account, model, request, cost_nanousd = 0, upstream_cost_nanousd = cost_nanousd } = recorded;
    const { corrections } = this.#options;
    const added = (corrections.size === 0 ? undefined : corrections.get(request)) ?? NO_CORRECTION;
    const before = cost_nanousd + added.cost_nanousd;
    const upstreamBefore = upstream_cost_nanousd + added.upstream_cost_nanousd;
    const isRejected = costs === NO_COSTS;
    let [after, upstreamAfter] = [before, upstreamBefore];
    if (recorded.cost_nanousd === undefined) this.tally.unpricedBefore++;
    if (price === null && !isRejected) this.tally.unpricedAfter++;
    if (costs !== null) {
      // A correction of tokens is charged by the other price, too.
      const isWhole = isRejected || price === null || added === NO_CORRECTION;
      ({ charge: after, upstreamCost: upstreamAfter } = isWhole ? costs : costsOf(price, event, added));
    }
    this.tally.addCosts({ account, model, isRejected, before, after, upstreamBefore, upstreamAfter });
  }

  #abandon(event: EventOf<'request.abandoned'>, placed: Pick<Placed, 'at'>): void {
    const open = this.#open.get(event.request);
    this.#open.delete(event.request);
    if (open?.charged) abandon(open.charged, amountsOf(event));
    if (!this.#isIn(placed)) return;
    this.tally.abandoned++;
  }

  /** A correction counts at its own time. Its amount is the recorded one. */
  #correct(event: EventOf<'usage.adjusted'>, minute: number): void {
    if (event.admitted_minute === undefined || this.#rejected.has(event.request)) return;
    const allowances = this.#allowances.of(this.#subjectsOf(event), event.admitted_minute);
    correct(chargedBy(allowances, event), event, minute);
  }

  /** Calls that the log has as rejected: if terms or limits decided so, they are decided again. */
  #rejectedAsRecorded(placed: Placed<EventOf<'request.rejected'>>): void {
    const { event, at, instance } = placed;
    if (!this.#isIn(placed)) return;
    const { calls } = this.tally;
    calls.rejected += event.rejected_count;
    const { candidate } = this;
    if (!isEvaluated(event) || candidate.recorded.account(event.account)?.state !== 'active') {
      calls.not_evaluated += event.rejected_count;
      return;
    }
    const terms = candidate.callTerms(event.account, event.key, event.model ?? '');
    const subjects = this.#subjectsOf(event);
    if (forbiddenBy(candidate, event, terms, subjects) !== null) return;
    const past = this.#history.of(instance, event.key, terms);
    const minute = event.admitted_minute ?? minuteOf(at.getTime());
    const sized = sizeOf(candidate, event, terms, past, subjects, minute);
    const allowances = this.#allowances.of(subjects, minute);
    let admitted = 0;
    while (admitted < event.rejected_count) {
      const decided = reserve(allowances, sized.need);
      if (!('units' in decided)) break;
      const { input, output, cost } = past.mean;
      settle(decided, { input_tokens: input, output_tokens: output, cost_nanousd: cost });
      this.tally.newlyAdmittedCost += BigInt(cost);
      admitted++;
    }
    if (admitted > 0)
      this.#differs(
        { ...placed, event: { ...event, rejected_count: admitted } },
        'admitted',
        null,
        [],
        sized,
      );
  }
}

/** Without the limits that were observed when it was recorded and would have rejected it. */
function chargedBy(
  allowances: readonly Allowance[],
  call: EventOf<'request.accepted' | 'usage.adjusted'>,
): readonly Allowance[] {
  if (call.observed === undefined) return allowances;
  return allowances.filter(({ subject, limit }) => !isUncharged(call, subject, limit));
}

function shortLimit(short: Allowance, { minimum }: CallNeed): ShortLimit {
  const { meter, window, cap, enforcement } = short.limit;
  const needed = unitsReserved(meter, minimum);
  const free = Math.max(0, freeOf(short));
  return { subject: short.subject, meter, window, cap, enforcement, needed, free };
}

/** The same settlement with a reply of at most so many tokens. */
function shorten(event: EventOf<'request.settled'>, outputMax: number | null): EventOf<'request.settled'> {
  if (outputMax === null || event.output_tokens <= outputMax) return event;
  const reasoning_tokens = Math.min(event.reasoning_tokens, outputMax);
  return { ...event, output_tokens: outputMax, reasoning_tokens };
}

/** The fields of a call, for the list of differences. */
const asCall = (event: EventOf<'request.settled'>): EventOf<'request.accepted'> => ({
  ...event,
  type: 'request.accepted',
  route: event.route ?? '/v1/chat/completions',
  sse: false,
  body_bytes: 0,
  hold_tokens: 0,
});
