import {
  type Limit,
  RATE_FIELDS,
  type SubjectLimits,
  type TermsLimit,
  termsLimits,
} from '#db/limits/limits.ts';
import type { CallNeed } from '#server/limits/waiting-call.ts';
import type { Amounts } from '#db/limits/meters.ts';
import type { Reservation } from '#server/limits/reservation.ts';
import type { Clockwork } from './clockwork.ts';
import { type Charged, expectedSubjects } from '../support/subjects.ts';
import type { Held, Version } from './truth.ts';

/** One call of a schedule, from its arrival on. */
export type Call = {
  request: string;
  whose: Charged;
  need: CallNeed;
  terms: number;
  arrivedMs: number;
  /** Of the terms that it was judged by. */
  version: number;
  isHard: boolean;
  growths: number;
  lengthMs: number;
  /** How often it was decided, which must become one. */
  decisions: number;
  isSettling: boolean;
};

type Terms = Parameters<typeof termsLimits>[0];
type Quotas = NonNullable<Terms['quotas']>;

/** Nano-dollars of a token. */
const PRICE = 3;
/** From tiny ones to such as are never reached. */
const CAPS = [0, 1, 2, 3, 5, 8, 12, 20, 30, 40, 60, 1_000, 100_000];
const TOKEN_CAPS = [60, 150, 300, 500, 800, 1_200, 2_000, 10_000, 1_000_000];

/** The limits of a schedule, how they change, and calls under them. */
export class Plans {
  static readonly ACCOUNT = 'Account1';
  static readonly PARENTS = ['Account2', 'Account3'];
  static readonly KEYS = ['Key00001', 'Key00002'];
  /** By how many tokens a reply may be longer than was reserved for it. */
  static readonly OVER_TOKENS = 60;
  static readonly OVERDRAFT = { tokens: Plans.OVER_TOKENS, cost: Plans.OVER_TOKENS * PRICE };
  readonly versions: Version[] = [];
  readonly #clockwork: Clockwork;
  /** The terms of each holder that has some. */
  readonly #shape: ReadonlyMap<string, Terms>;
  readonly #resets = { account: 0, key: 0 };
  readonly #parents: readonly string[];
  /** The limits of each holder for each kind of subject: the same array until they change. */
  readonly #limits = new WeakMap<Held, Map<string | null, readonly Limit[]>>();
  #requests = 0;

  constructor(clockwork: Clockwork) {
    this.#clockwork = clockwork;
    const ofAccount = this.#terms(0.35);
    const shape = new Map([[`account/${Plans.ACCOUNT}`, ofAccount]]);
    if (clockwork.chance(0.5)) shape.set(`key/${Plans.KEYS[0]}`, this.#terms(0.3));
    this.#parents = clockwork.chance(0.3) ? Plans.PARENTS.slice(0, clockwork.between(1, 2)) : [];
    for (const parent of this.#parents) shape.set(`account/${parent}`, this.#terms(0.3));
    this.#shape = shape;
    this.change(1, null);
  }

  /** New terms at a position of the log. @param reset whose windows begin anew. */
  change(position: number, reset: 'account' | 'key' | null): void {
    if (reset) this.#resets[reset] = position;
    const before = this.versions.at(-1);
    const holders = new Map<string, Held>();
    for (const [holder, terms] of this.#shape) {
      const last = before?.holders.get(holder);
      const isSame = last !== undefined && reset === null && !this.#clockwork.chance(0.7);
      const isReset = this.#resets[holder.startsWith('key/') ? 'key' : 'account'];
      const limits = termsLimits(terms, isReset).map((limit): TermsLimit =>
        before ? { ...this.#observedOrNot(limit), cap: this.#recap(limit.cap) } : limit,
      );
      holders.set(holder, isSame ? last : { position, limits });
    }
    this.versions.push({ position, holders });
  }

  subjects(version: number, { whose }: Call): SubjectLimits[] {
    const { holders } = this.versions[version] as Version;
    return expectedSubjects(whose).flatMap(({ name: subject, holder, per }) => {
      const held = holders.get(holder);
      const limits = held ? this.#limitsOf(held, per) : [];
      return held && limits.length > 0
        ? [{ subject, limits, position: held.position, replyTokensMax: null }]
        : [];
    });
  }

  #limitsOf(held: Held, per: string | null): readonly Limit[] {
    const known = this.#limits.get(held) ?? new Map<string | null, readonly Limit[]>();
    this.#limits.set(held, known);
    const limits = known.get(per) ?? held.limits.filter((limit) => limit.per === per);
    known.set(per, limits);
    return limits;
  }

  call(): Call {
    const clockwork = this.#clockwork;
    const key = clockwork.pick(Plans.KEYS);
    const pseudonym = (): string | undefined =>
      clockwork.chance(0.7) ? clockwork.pick(['A', 'B', 'C']) : undefined;
    const tags = ['T', 'V', 'W'].filter(() => clockwork.chance(0.3));
    const whose: Charged = {
      account: Plans.ACCOUNT,
      key,
      ...(this.#parents.length > 0 ? { parents: this.#parents } : {}),
      end_user: pseudonym(),
      session: pseudonym(),
      ...(tags.length > 0 ? { tags } : {}),
    };
    const isHard = [...this.#shape].some(
      ([holder, terms]) =>
        (holder.startsWith('account/') || holder === `key/${key}`) &&
        terms.quotas?.some(({ enforcement }) => enforcement === 'hard'),
    );
    const prompt = clockwork.between(1, 20);
    const reply = clockwork.chance(0.1) ? clockwork.between(50, 400) : clockwork.between(5, 40);
    const amounts = (tokens: number): Amounts => ({
      tokens: prompt + tokens,
      cost: (prompt + tokens) * PRICE,
    });
    const wanted = amounts(reply);
    return {
      request: String(++this.#requests).padStart(6, '0'),
      whose,
      need: { minimum: isHard ? amounts(Math.min(reply, 4)) : wanted, wanted },
      terms: 0,
      arrivedMs: clockwork.nowMs,
      version: 0,
      isHard,
      growths: !isHard && clockwork.chance(0.2) ? clockwork.between(1, 2) : 0,
      lengthMs: clockwork.between(1, clockwork.chance(0.2) ? 800 : 60),
      decisions: 0,
      isSettling: false,
    };
  }

  /** What a call has spent in the end: under a hard quota never more than it holds. */
  spend({ isHard }: Call, { tokens, cost }: Reservation): Amounts {
    const clockwork = this.#clockwork;
    const over = !isHard && clockwork.chance(0.15) ? clockwork.between(1, Plans.OVER_TOKENS) : 0;
    const spent = over > 0 ? tokens + over : clockwork.chance(0.2) ? tokens : clockwork.between(0, tokens);
    return { tokens: spent, cost: isHard ? Math.min(cost, spent * PRICE) : spent * PRICE };
  }

  /** A limit may be enforced in place of being observed, or the other way round. */
  #observedOrNot(limit: TermsLimit): TermsLimit {
    if (limit.enforcement === 'hard' || !this.#clockwork.chance(0.2)) return limit;
    return { ...limit, enforcement: limit.enforcement === 'observe' ? 'soft' : 'observe' };
  }

  #recap(cap: number): number {
    const clockwork = this.#clockwork;
    return clockwork.pick([
      cap,
      Math.floor(cap / 2),
      cap * 2,
      cap + clockwork.between(0, 5),
      Math.max(0, cap - clockwork.between(0, 5)),
    ]);
  }

  #terms(probability: number): Terms {
    const clockwork = this.#clockwork;
    const maybe = (caps: readonly number[]): number | undefined =>
      clockwork.chance(probability) ? clockwork.pick(caps) : undefined;
    const isHard = clockwork.chance(0.4);
    const enforcement = isHard ? 'hard' : 'soft';
    const quota = (
      meter: Quotas[number]['meter'],
      window: Quotas[number]['window'],
      limit: number | undefined,
      per?: 'end_user' | 'session' | 'tag',
    ): Quotas =>
      limit === undefined
        ? []
        : [{ meter, window, limit, per, enforcement: clockwork.chance(0.25) ? 'observe' : enforcement }];
    const tokens = maybe(TOKEN_CAPS);
    const cost = maybe(TOKEN_CAPS);
    return {
      observe: RATE_FIELDS.filter(() => clockwork.chance(0.25)),
      concurrent_requests: maybe(CAPS.slice(1)),
      requests_per_minute: maybe(CAPS),
      tokens_per_minute: maybe(TOKEN_CAPS),
      quotas: [
        ...quota('tokens', clockwork.pick(['hour', 'day']), tokens),
        ...quota(
          'cost_nanousd',
          clockwork.pick(['day', 'month', 'week']),
          cost === undefined ? undefined : cost * PRICE,
        ),
        ...quota('requests', 'hour', maybe(CAPS)),
        ...quota('tokens', clockwork.pick(['hour', 'day']), maybe(TOKEN_CAPS), 'end_user'),
        ...quota('requests', 'lifetime', maybe(CAPS), 'session'),
        ...quota('tokens', 'lifetime', maybe(TOKEN_CAPS), 'tag'),
      ],
    };
  }
}
