import type { EventOf, Placed } from '#db/events/events.ts';
import { isAccountEvent, isKeyEvent, isPlanEvent } from '#db/events/subjects.ts';
import { type Account, chargedTerms, applyPlanEvent, evolveAccount } from '#db/fold/account.ts';
import { evolveKey, type Key } from '#db/fold/key.ts';
import { evolvePlan, type Plan } from '#db/fold/plan.ts';
import { type TermsLimit, termsLimits, WINDOW_KINDS } from '#db/limits/limits.ts';
import { METERS } from '#db/limits/meters.ts';
import { minuteOf, windowEnd, windowStart } from '#db/limits/windows.ts';
import { expectedAbandoned, expectedCorrected, expectedReserved, expectedSettled } from '../meters.ts';
import { type ExpectedSubject, expectedSubjects } from '../subjects.ts';
import type { Row, Rows } from './projection-fold.ts';

/**
 * What the quota windows are to hold, event by event, by the rules of the judge of limits
 * (limits-identity.ts): who is charged what, and when it is given back.
 */

/** The codes of what terms count apart, as projections store them. */
const CODES = { soft: 0, hard: 1, observe: 2 };
const PER_CODES: Readonly<Record<string, number>> = { '': 0, end_user: 1, session: 2, tag: 3 };
const nameOf = ({ meter, window, per }: Pick<TermsLimit, 'meter' | 'window' | 'per'>): string =>
  `${meter} ${window} ${per ?? ''}`;

/** Whether an event names a limit as one that would have rejected its call. */
const isNamed = (
  { observed = [] }: Pick<EventOf<'request.accepted'>, 'observed'>,
  { name }: ExpectedSubject,
  { meter, window }: TermsLimit,
): boolean =>
  observed.some((each) => `${each.subject} ${each.meter} ${each.window}` === `${name} ${meter} ${window}`);

type Version = { position: number; minute: number; quotas: Map<string, TermsLimit> };
type Charge = { row: Row; limit: TermsLimit; end: number; held: number };
type Life = Extract<
  Placed['event'],
  { type: 'request.accepted' | 'request.extended' | 'request.settled' | 'request.abandoned' }
>;

export function foldQuotas(log: readonly Placed[]): Rows {
  const fold = new QuotaFold();
  for (const event of log) fold.take(event);
  return fold.rows;
}

class QuotaFold {
  readonly rows: Rows = new Map();
  readonly #accounts = new Map<string, Account>();
  readonly #plans = new Map<string, Plan>();
  readonly #keys = new Map<string, Key>();
  readonly #versions = new Map<string, Version[]>();
  readonly #open = new Map<string, Charge[]>();

  take(placed: Placed): void {
    const { event, at, position } = placed;
    const minute = minuteOf(at.getTime());
    if (event.type === 'workload.exchanged') return;
    if (!('actor' in event)) {
      if (event.type === 'usage.adjusted') this.#correct(event, position, minute);
      else if (event.type !== 'request.rejected' && event.type !== 'tokens.counted')
        this.#life(event, position, minute);
      return;
    }
    if (event.type === 'quota.adjusted') return this.#adjust(event, position);
    const version = placed.version ?? 0;
    if (isKeyEvent(event)) {
      const key = evolveKey(this.#keys.get(event.key), { event, at, position, version });
      if (!key) return;
      this.#keys.set(key.id, key);
      this.#terms(`key/${key.id}`, termsLimits(key.terms ?? {}, key.resetPosition), position, minute);
    } else if (isAccountEvent(event)) {
      const account = evolveAccount(this.#accounts.get(event.account), { event, at, position, version });
      this.#account(account, position, minute);
    } else if (isPlanEvent(event)) {
      const plan = evolvePlan(this.#plans.get(event.plan), { event, at, position, version });
      if (!plan) return;
      this.#plans.set(plan.name, plan);
      for (const account of this.#accounts.values()) {
        if (account.plan === plan.name)
          this.#account(applyPlanEvent(account, { event, at, position, version }), position, minute);
      }
    }
  }

  #account(account: Account | undefined, position: number, minute: number): void {
    if (!account) return;
    this.#accounts.set(account.id, account);
    const plan = account.plan === null ? undefined : this.#plans.get(account.plan);
    this.#terms(
      `account/${account.id}`,
      termsLimits(chargedTerms(account, plan), account.resetPosition),
      position,
      minute,
    );
  }

  #terms(subject: string, limits: readonly TermsLimit[], position: number, minute: number): void {
    const versions = this.#versions.get(subject) ?? [];
    this.#versions.set(subject, versions);
    const before = versions.at(-1)?.quotas;
    const quotas = new Map(
      limits
        .filter(({ window }) => window !== 'none' && window !== 'minute')
        .map((limit) => [nameOf(limit), limit]),
    );
    versions.push({ position, minute, quotas });
    for (const [name, limit] of quotas) {
      const old = before?.get(name);
      if (old && old.cap === limit.cap && old.enforcement === limit.enforcement && old.reset === limit.reset)
        continue;
      for (const row of this.rows.values()) {
        const isMeant =
          row['holder'] === subject &&
          row['per'] === PER_CODES[limit.per ?? ''] &&
          row['meter'] === METERS[limit.meter].code &&
          row['window_kind'] === WINDOW_KINDS[limit.window] &&
          row['reset_position'] === limit.reset;
        if (isMeant && windowEnd(limit.window, row['window_start'] as number) > minute) {
          Object.assign(row, { cap: limit.cap, enforcement: CODES[limit.enforcement], position });
        }
      }
    }
  }

  #life(event: Life, position: number, minute: number): void {
    if (event.type === 'request.accepted') return this.#accept(event, position);
    const charges = this.#open.get(event.request) ?? [];
    for (const charge of charges) {
      if (event.type === 'request.extended') {
        if (charge.end <= minute) continue;
        this.#hold(charge, expectedReserved(charge.limit.meter, event), position);
        continue;
      }
      const spent =
        event.type === 'request.abandoned'
          ? expectedAbandoned(charge.limit.meter, event)
          : expectedSettled(charge.limit.meter, event);
      this.#hold(charge, 0, position);
      charge.row['used'] = (charge.row['used'] as number) + spent;
    }
    if (event.type !== 'request.extended') this.#open.delete(event.request);
  }

  /** A correction is charged to the windows of its call that are not over. */
  #correct(event: EventOf<'usage.adjusted'>, position: number, minute: number): void {
    const { admitted_minute: admitted, terms_position: terms = 0 } = event;
    if (admitted === undefined) return;
    for (const subject of expectedSubjects(event)) {
      const versions = this.#versions.get(subject.holder) ?? [];
      for (const limit of versions.findLast((version) => version.position <= terms)?.quotas.values() ?? []) {
        const isOver = windowEnd(limit.window, windowStart(limit.window, admitted)) <= minute;
        if (limit.per !== subject.per || isOver || isNamed(event, subject, limit)) continue;
        const row = this.#row(subject, limit, admitted, versions);
        row['used'] = (row['used'] as number) + expectedCorrected(limit.meter, event);
        row['position'] = Math.max(row['position'] as number, position);
      }
    }
  }

  #adjust(event: EventOf<'quota.adjusted'>, position: number): void {
    const { account, key, meter, window, window_start, reset_position, amount } = event;
    const holder = key === undefined ? `account/${account}` : `key/${key}`;
    const subject = { name: holder, holder, per: null, account };
    const versions = this.#versions.get(holder) ?? [];
    const limit = versions
      .map(({ quotas }) => quotas.get(nameOf({ meter, window, per: null })))
      .findLast((each) => each?.reset === reset_position);
    if (!limit) return;
    const row = this.#row(subject, limit, window_start, versions);
    row['used'] = (row['used'] as number) + amount;
    row['position'] = Math.max(row['position'] as number, position);
  }

  #accept(event: EventOf<'request.accepted'>, position: number): void {
    const { admitted_minute: minute, terms_position: terms = 0 } = event;
    if (minute === undefined) return;
    const charges: Charge[] = [];
    this.#open.set(event.request, charges);
    for (const subject of expectedSubjects(event)) {
      const versions = this.#versions.get(subject.holder) ?? [];
      for (const limit of versions.findLast((version) => version.position <= terms)?.quotas.values() ?? []) {
        if (limit.per !== subject.per || isNamed(event, subject, limit)) continue;
        const row = this.#row(subject, limit, minute, versions);
        const charge = {
          row,
          limit,
          end: windowEnd(limit.window, windowStart(limit.window, minute)),
          held: 0,
        };
        charges.push(charge);
        this.#hold(charge, expectedReserved(limit.meter, event), position);
      }
    }
  }

  #hold(charge: Charge, units: number, position: number): void {
    const { row } = charge;
    row['held'] = (row['held'] as number) + units - charge.held;
    row['position'] = Math.max(row['position'] as number, position);
    charge.held = units;
  }

  #row(subject: ExpectedSubject, limit: TermsLimit, minute: number, versions: readonly Version[]): Row {
    const window_start = windowStart(limit.window, minute);
    const identity = {
      subject: subject.name,
      meter: METERS[limit.meter].code,
      window_kind: WINDOW_KINDS[limit.window],
      window_start,
      reset_position: limit.reset,
    };
    const name = JSON.stringify(Object.values(identity));
    const known = this.rows.get(name);
    if (known) return known;
    const same = versions.flatMap((version) => {
      const other = version.quotas.get(nameOf(limit));
      return other?.reset === limit.reset
        ? [{ ...version, cap: other.cap, enforcement: CODES[other.enforcement] }]
        : [];
    });
    const end = windowEnd(limit.window, window_start);
    const newest = same.findLast((version) => version.minute < end) ?? same[0];
    const row = {
      ...identity,
      begins_at: new Date(limit.window === 'lifetime' ? 'infinity' : window_start * 60_000),
      holder: subject.holder,
      per: PER_CODES[subject.per ?? ''],
      account: subject.account,
      cap: newest?.cap,
      enforcement: newest?.enforcement,
      used: 0,
      held: 0,
      position: 0,
    };
    this.rows.set(name, row);
    return row;
  }
}
