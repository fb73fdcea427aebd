import { isTermsEvent } from '#db/events/subjects.ts';
import { EVENT_CODES, type ControlEvent, type EventOf, isControl, type Placed } from '#db/events/events.ts';
import { type Account, chargedTerms, applyPlanEvent, evolveAccount } from '#db/fold/account.ts';
import { evolveKey, type Key } from '#db/fold/key.ts';
import { evolvePlan, type Plan } from '#db/fold/plan.ts';
import { REPLY_TOKENS_MAX_DEFAULT, type TermsLimit, termsLimits } from '#db/limits/limits.ts';
import { minuteOf, windowEnd, windowStart } from '#db/limits/windows.ts';
import { PriceTable } from '#server/read-model/price-table.ts';
import { expectedAbandoned, expectedOverdraft, expectedReserved, expectedSettled } from '../meters.ts';
import { expectedSubjects } from '../subjects.ts';

/**
 * Whether limits held, from the log alone, as an auditor would look: at every prefix of it, of each
 * limit in each window what was settled and what open requests held is no more than the cap; where
 * an admitted reply is never cut, no more than the cap and the declared overdraft.
 *
 * A request is judged by the terms that it was admitted under (`terms_position`). While servers are
 * still to hear of a higher cap some of them rightly admit beyond the lower one, so of the caps since
 * those terms the highest counts. Pure.
 */
export type LimitRule = 'limit' | 'ending' | 'terms';
export type LimitViolation = { rule: LimitRule; position: number; request: string; message: string };

/** Requests that run at the same time where no limit says how many; see the limit of that limit. */
const CONCURRENT_DEFAULT = 10_000;
const MILLION = 1_000_000;

type Terms = { limits: readonly TermsLimit[]; concurrent: number; replyTokensMax: number };
type Version = { position: number; terms: Terms };
type Charge = { name: string; holder: string; limit: TermsLimit; endMinute: number; held: number };
type Open = { position: number; terms: number; charges: Charge[] };
type Sum = { settled: number; held: number; overdraft: number };
type Life = Extract<
  Placed['event'],
  { type: 'request.accepted' | 'request.extended' | 'request.settled' | 'request.abandoned' }
>;

/** @param events a log from its beginning, in which every call has ended. */
export function checkLimits(events: readonly Placed[]): LimitViolation[] {
  const audit = new Audit();
  for (const event of events) audit.add(event);
  return audit.end();
}

class Audit {
  readonly #violations: LimitViolation[] = [];
  readonly #plans = new Map<string, Plan>();
  readonly #accounts = new Map<string, Account>();
  readonly #keys = new Map<string, Key>();
  readonly #prices = new PriceTable();
  /** The terms of each account and key, by where they began. */
  readonly #history = new Map<string, Version[]>();
  readonly #sums = new Map<string, Sum>();
  readonly #open = new Map<string, Open>();
  readonly #ended = new Set<string>();

  add(placed: Placed): void {
    const { event, position, at } = placed;
    if (isControl(placed)) this.#control(placed);
    // A correction changes what was charged, not what was admitted, and a count is charged nothing.
    else if ('actor' in event || event.type === 'tokens.counted' || event.type === 'workload.exchanged')
      return;
    else if (event.type !== 'request.rejected' && event.type !== 'usage.adjusted')
      this.#life(event, position, minuteOf(at.getTime()));
  }

  end(): LimitViolation[] {
    for (const [request, { position }] of this.#open)
      this.#fail('ending', position, request, 'was accepted, but has no ending');
    return this.#violations;
  }

  #control({ event, at, position, version }: Placed<ControlEvent>): void {
    if (event.type === 'model.priced') return this.#prices.apply({ event, at, position, version });
    if (!isTermsEvent(event)) return;
    if ('key' in event) {
      const key = evolveKey(this.#keys.get(event.key), { event, at, position, version });
      if (!key) return;
      this.#keys.set(key.id, key);
      return this.#note(`key/${key.id}`, position, termsOf(key.terms ?? {}, key.resetPosition));
    }
    if ('account' in event) {
      const account = evolveAccount(this.#accounts.get(event.account), { event, at, position, version });
      if (account) this.#account(account, position);
      return;
    }
    const plan = evolvePlan(this.#plans.get(event.plan), { event, at, position, version });
    if (!plan) return;
    this.#plans.set(plan.name, plan);
    for (const account of this.#accounts.values()) {
      if (account.plan === plan.name)
        this.#account(applyPlanEvent(account, { event, at, position, version }), position);
    }
  }

  #account(account: Account, position: number): void {
    this.#accounts.set(account.id, account);
    const plan = account.plan === null ? undefined : this.#plans.get(account.plan);
    this.#note(
      `account/${account.id}`,
      position,
      termsOf(chargedTerms(account, plan), account.resetPosition),
    );
  }

  #note(subject: string, position: number, terms: Terms): void {
    const versions = this.#history.get(subject) ?? [];
    this.#history.set(subject, versions);
    versions.push({ position, terms });
  }

  #life(event: Life, position: number, minute: number): void {
    const { request } = event;
    const open = this.#open.get(request);
    if (event.type === 'request.accepted') {
      if (open || this.#ended.has(request))
        return this.#fail('ending', position, request, 'was accepted twice');
      return this.#accept(event, position);
    }
    if (!open) {
      const why = this.#ended.has(request) ? 'after its end' : 'without being accepted';
      return this.#fail(
        'ending',
        position,
        request,
        `has a ${event.type} (${EVENT_CODES[event.type]}) ${why}`,
      );
    }
    if (event.type === 'request.extended') return this.#extend(open, event, position, minute);
    this.#open.delete(request);
    this.#ended.add(request);
    for (const charge of open.charges) {
      const sum = this.#sums.get(charge.name) as Sum;
      sum.held -= charge.held;
      const { meter } = charge.limit;
      sum.settled +=
        event.type === 'request.abandoned' ? expectedAbandoned(meter, event) : expectedSettled(meter, event);
      this.#judge(charge, open, position, request);
    }
  }

  #accept(event: EventOf<'request.accepted'>, position: number): void {
    const { request, model, admitted_minute: minute, terms_position: terms = 0 } = event;
    const open: Open = { position, terms, charges: [] };
    this.#open.set(request, open);
    // From before there were limits.
    if (minute === undefined) return;
    if (terms >= position)
      return this.#fail(
        'terms',
        position,
        request,
        `was admitted under terms of position ${terms}, which came later`,
      );
    for (const { name: subject, holder, per } of expectedSubjects(event)) {
      const version = this.#history.get(holder)?.findLast((each) => each.position <= terms);
      for (const limit of version?.terms.limits ?? []) {
        const isNamed = event.observed?.some(
          (each) => each.subject === subject && each.meter === limit.meter && each.window === limit.window,
        );
        if (limit.per !== per || isNamed === true) continue;
        const start = windowStart(limit.window, minute);
        const name = [
          `${limit.meter} of ${subject}`,
          `${limit.window} from minute ${start}`,
          `reset ${limit.reset}`,
        ].join(', ');
        const charge: Charge = {
          name,
          holder,
          limit,
          endMinute: windowEnd(limit.window, start),
          held: expectedReserved(limit.meter, event),
        };
        const sum = this.#sums.get(name) ?? { settled: 0, held: 0, overdraft: 0 };
        this.#sums.set(name, sum);
        sum.held += charge.held;
        sum.overdraft = Math.max(sum.overdraft, this.#overdraft(limit, version as Version, model));
        open.charges.push(charge);
        this.#judge(charge, open, position, request);
      }
    }
  }

  /** A window that is over limits nothing, so nothing is taken from it any more. */
  #extend(open: Open, event: EventOf<'request.extended'>, position: number, minute: number): void {
    for (const charge of open.charges) {
      if (charge.endMinute <= minute) continue;
      const sum = this.#sums.get(charge.name) as Sum;
      const held = expectedReserved(charge.limit.meter, event);
      sum.held += held - charge.held;
      charge.held = held;
      this.#judge(charge, open, position, event.request);
    }
  }

  /** How far a limit may be overdrawn by replies that are not cut. Requests are counted when they come. */
  #overdraft({ meter, enforcement }: TermsLimit, { terms }: Version, model: string): number {
    const amount = expectedOverdraft(meter);
    if (amount === null || enforcement === 'hard') return 0;
    const tokens = terms.concurrent * terms.replyTokensMax;
    if (amount === 'tokens') return tokens;
    const base = this.#prices.find(model)?.terms.base;
    return base ? Math.ceil((tokens * Math.max(base.output ?? 0, base.reasoning ?? 0)) / MILLION) : 0;
  }

  #judge({ name, holder, limit }: Charge, open: Open, position: number, request: string): void {
    const { settled, held, overdraft } = this.#sums.get(name) as Sum;
    let cap = limit.cap;
    for (const { terms } of this.#history.get(holder)?.filter((each) => each.position > open.terms) ?? []) {
      const later = terms.limits.find(
        (each) =>
          each.per === limit.per &&
          each.meter === limit.meter &&
          each.window === limit.window &&
          each.reset === limit.reset,
      );
      cap = Math.max(cap, later?.cap ?? 0);
    }
    if (settled + held <= cap + overdraft) return;
    const more = overdraft > 0 ? ` and ${overdraft} of overdraft` : '';
    this.#fail(
      'limit',
      position,
      request,
      `${name}: ${settled} settled and ${held} held exceed ${cap}${more}`,
    );
  }

  #fail(rule: LimitRule, position: number, request: string, message: string): void {
    this.#violations.push({ rule, position, request, message });
  }
}

function termsOf(
  terms: Parameters<typeof termsLimits>[0] & { reply_tokens_max?: number | undefined },
  reset: number,
): Terms {
  return {
    limits: termsLimits(terms, reset),
    concurrent: terms.concurrent_requests ?? CONCURRENT_DEFAULT,
    replyTokensMax: terms.reply_tokens_max ?? REPLY_TOKENS_MAX_DEFAULT,
  };
}
