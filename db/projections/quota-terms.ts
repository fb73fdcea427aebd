import { isTermsEvent } from '#db/events/subjects.ts';
import type { ControlEvent, Placed } from '#db/events/events.ts';
import { type Account, chargedTerms, applyPlanEvent, evolveAccount } from '#db/fold/account.ts';
import { evolveKey, type Key } from '#db/fold/key.ts';
import { evolvePlan, type Plan } from '#db/fold/plan.ts';
import { isQuotaWindow, type Quota, type TermsLimit, termsLimits } from '#db/limits/limits.ts';
import { minuteOf } from '#db/limits/windows.ts';

/**
 * A quota of an account or key, in force for calls whose terms are of `position` or later, and before
 * `until`.
 */
export type QuotaInterval = {
  subject: string;
  limit: TermsLimit;
  position: number;
  /** Null: still in force. */
  until: number | null;
  /** The minute of the event that began it. */
  fromMinute: number;
};

/** The state of an account, plan or key that its next change of terms is folded onto. */
export type QuotaSource = {
  /** `account/<id>`, `plan/<name>` or `key/<id>`. */
  subject: string;
  /** The account that an account or a key belongs to. */
  account: string | null;
  /** The name of an account's plan. */
  plan: string | null;
  /** The quotas of its own terms, and whether they are prepaid; null where those name none. */
  quotas: readonly Quota[] | null;
  prepaid: boolean | null;
  /** The top-ups of an account; otherwise 0. */
  toppedUp: number;
  reset: number;
};

/**
 * The quotas of each account and key over time, from the control events. It uses the folds of the
 * read model. Only a {@link QuotaSource} of their state is stored from one range to the next; the
 * rest of a restored subject is filled with defaults. Pure.
 */
export class QuotaTerms {
  readonly #accounts = new Map<string, Account>();
  readonly #plans = new Map<string, Plan>();
  readonly #keys = new Map<string, Key>();
  /** The intervals in force, by holder, then by meter, window and kind of subject. */
  readonly #open = new Map<string, Map<string, QuotaInterval>>();
  /** The intervals that are new or have ended. */
  readonly #changed = new Set<QuotaInterval>();
  readonly #touched = new Set<string>();

  /** The intervals that are new or have ended since they were restored. */
  get intervals(): QuotaInterval[] {
    return [...this.#changed];
  }

  /** The state of the subjects that events have changed, to be stored. */
  get sources(): QuotaSource[] {
    return [...this.#touched].map((subject) => this.#source(subject)).filter((source) => source !== null);
  }

  #source(subject: string): QuotaSource | null {
    const [kind, id] = subject.split('/', 2) as [string, string];
    const account = kind === 'account' ? this.#accounts.get(id) : undefined;
    const plan = kind === 'plan' ? this.#plans.get(id) : undefined;
    const key = kind === 'key' ? this.#keys.get(id) : undefined;
    if (account)
      return {
        subject,
        account: id,
        plan: account.plan,
        quotas: account.override?.quotas ?? null,
        prepaid: account.override?.prepaid ?? null,
        toppedUp: account.toppedUp,
        reset: account.resetPosition,
      };
    if (plan) {
      const { quotas = null, prepaid = null } = plan.terms;
      return { subject, account: null, plan: null, quotas, prepaid, toppedUp: 0, reset: 0 };
    }
    if (key)
      return {
        subject,
        account: key.account,
        plan: null,
        quotas: key.terms?.quotas ?? null,
        prepaid: null,
        toppedUp: 0,
        reset: key.resetPosition,
      };
    return null;
  }

  /** Restores the stored state of a subject. */
  restoreSource({ subject, account, plan, quotas, prepaid, toppedUp, reset }: QuotaSource): void {
    const [kind, id] = subject.split('/', 2) as [string, string];
    const ofQuotas = quotas === null ? {} : { quotas: [...quotas] };
    const terms = { ...ofQuotas, ...(prepaid === null ? {} : { prepaid }) };
    if (kind === 'plan') this.#plans.set(id, { ...PLAN, name: id, terms });
    else if (kind === 'account')
      this.#accounts.set(id, { ...ACCOUNT, id, plan, override: terms, toppedUp, resetPosition: reset });
    else
      this.#keys.set(id, { ...KEY, id, account: account as string, terms: ofQuotas, resetPosition: reset });
  }

  /** Restores an interval that is still in force. */
  restoreInterval(interval: QuotaInterval): void {
    const open = this.#open.get(interval.subject) ?? new Map<string, QuotaInterval>();
    this.#open.set(interval.subject, open.set(nameOf(interval.limit), interval));
  }

  apply({ event, at, position, version }: Placed<ControlEvent>): void {
    const minute = minuteOf(at.getTime());
    if (!isTermsEvent(event)) return;
    if ('key' in event) {
      const key = evolveKey(this.#keys.get(event.key), { event, at, position, version });
      if (!key) return;
      this.#keys.set(key.id, key);
      this.#note(`key/${key.id}`, termsLimits(key.terms ?? {}, key.resetPosition), position, minute);
    } else if ('account' in event) {
      const account = evolveAccount(this.#accounts.get(event.account), { event, at, position, version });
      if (account) this.#noteAccount(account, position, minute);
    } else {
      const plan = evolvePlan(this.#plans.get(event.plan), { event, at, position, version });
      if (!plan) return;
      this.#plans.set(plan.name, plan);
      this.#touched.add(`plan/${plan.name}`);
      for (const account of this.#accounts.values()) {
        if (account.plan === plan.name)
          this.#noteAccount(applyPlanEvent(account, { event, at, position, version }), position, minute);
      }
    }
  }

  #noteAccount(account: Account, position: number, minute: number): void {
    this.#accounts.set(account.id, account);
    const plan = account.plan === null ? undefined : this.#plans.get(account.plan);
    this.#note(
      `account/${account.id}`,
      termsLimits(chargedTerms(account, plan), account.resetPosition),
      position,
      minute,
    );
  }

  /** Sets the limits of a subject. Only intervals that differ end and begin. */
  #note(subject: string, limits: readonly TermsLimit[], position: number, fromMinute: number): void {
    this.#touched.add(subject);
    const open = this.#open.get(subject) ?? new Map<string, QuotaInterval>();
    this.#open.set(subject, open);
    const quotas = new Map(
      limits.filter(({ window }) => isQuotaWindow(window)).map((limit) => [nameOf(limit), limit]),
    );
    for (const [name, interval] of open) {
      if (isSame(interval.limit, quotas.get(name))) continue;
      interval.until = position;
      open.delete(name);
      this.#changed.add(interval);
    }
    for (const [name, limit] of quotas) {
      if (open.has(name)) continue;
      const interval: QuotaInterval = { subject, limit, position, until: null, fromMinute };
      open.set(name, interval);
      this.#changed.add(interval);
    }
  }
}

/** Fields of the folds that quotas don't depend on. */
const PLAN = { state: 'active', position: 0, version: 0 } as const;
const ACCOUNT = { name: '', state: 'active', parent: null, termsPosition: 0, version: 0 } as const;
const KEY = {
  name: '',
  createdAt: new Date(0),
  expiresAt: null,
  expiredAt: null,
  revokedAt: null,
  workload: null,
  secret: { digest: '', last4: '' },
  previous: null,
  termsPosition: 0,
  version: 0,
};

const nameOf = ({ meter, window, per }: TermsLimit): string => `${meter} ${window} ${per ?? ''}`;
const isSame = (one: TermsLimit, other: TermsLimit | undefined): boolean =>
  other !== undefined &&
  one.cap === other.cap &&
  one.enforcement === other.enforcement &&
  one.reset === other.reset;
