import { type Limit, limitsOf, type SubjectLimits } from '#db/limits/limits.ts';
import type { CallNeed } from '#server/limits/admission-controller.ts';
import type { Amounts } from '#db/limits/meters.ts';
import type { Reservation } from '#server/limits/reservation.ts';
import type { Clockwork } from './clockwork.ts';
import type { Version } from './truth.ts';

/** One call of a schedule, from its arrival on. */
export type Call = {
  request: string;
  key: string;
  need: CallNeed;
  terms: number;
  isHard: boolean;
  growths: number;
  lengthMs: number;
  /** How often it was decided, which must become one. */
  decisions: number;
  isSettling: boolean;
};

type Terms = Parameters<typeof limitsOf>[0];
type Shape = { account: Terms; keys: Record<string, Terms | null> };

/** Nano-dollars of a token. */
const PRICE = 3;
/** From tiny ones to such as are never reached. */
const CAPS = [0, 1, 2, 3, 5, 8, 12, 20, 30, 40, 60, 1_000, 100_000];
const TOKEN_CAPS = [60, 150, 300, 500, 800, 1_200, 2_000, 10_000, 1_000_000];

/** The limits of a schedule, how they change, and calls under them. */
export class Plans {
  static readonly ACCOUNT = 'Account1';
  static readonly KEYS = ['Key00001', 'Key00002'];
  /** By how many tokens a reply may be longer than was reserved for it. */
  static readonly OVER_TOKENS = 60;
  static readonly OVERDRAFT = { tokens: Plans.OVER_TOKENS, cost: Plans.OVER_TOKENS * PRICE };
  readonly versions: Version[] = [];
  readonly #clockwork: Clockwork;
  readonly #shape: Shape;
  readonly #resets = { account: 0, key: 0 };
  #requests = 0;

  constructor(clockwork: Clockwork) {
    this.#clockwork = clockwork;
    this.#shape = {
      account: this.#terms(0.35),
      keys: { Key00001: clockwork.chance(0.5) ? this.#terms(0.3) : null, Key00002: null },
    };
    this.change(1, null);
  }

  /** New terms at a position of the log. @param reset whose windows begin anew. */
  change(position: number, reset: 'account' | 'key' | null): void {
    if (reset) this.#resets[reset] = position;
    const before = this.versions.at(-1);
    const of = (
      subject: string,
      terms: Terms | null | undefined,
      isReset: number,
      last: SubjectLimits | null | undefined,
    ): SubjectLimits | null => {
      if (!terms) return null;
      if (last && !this.#clockwork.chance(0.7) && reset === null) return last;
      const limits = limitsOf(terms, isReset).map((limit): Limit =>
        before ? { ...limit, cap: this.#recap(limit.cap) } : limit,
      );
      return { subject, limits, position, replyTokensMax: null };
    };
    const { account, keys } = this.#shape;
    const key = of(`key/${Plans.KEYS[0]}`, keys['Key00001'], this.#resets.key, before?.keys['Key00001']);
    this.versions.push({
      position,
      account: of(`account/${Plans.ACCOUNT}`, account, this.#resets.account, before?.account),
      keys: { Key00001: key },
    });
  }

  subjects(version: number, key: string): SubjectLimits[] {
    const { account, keys } = this.versions[version] as Version;
    return [account, keys[key]].filter((each) => each !== null && each !== undefined);
  }

  call(): Call {
    const clockwork = this.#clockwork;
    const key = clockwork.pick(Plans.KEYS);
    const isHard = [this.#shape.account, this.#shape.keys[key]].some((terms) =>
      terms?.quotas?.some(({ enforcement }) => enforcement === 'hard'),
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
      key,
      need: { minimum: isHard ? amounts(Math.min(reply, 4)) : wanted, wanted },
      terms: 0,
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
      meter: 'requests' | 'tokens' | 'cost_nanousd',
      window: 'hour' | 'day' | 'week' | 'month',
      limit: number | undefined,
    ) => (limit === undefined ? [] : [{ meter, window, limit, enforcement } as const]);
    const tokens = maybe(TOKEN_CAPS);
    const cost = maybe(TOKEN_CAPS);
    return {
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
      ],
    };
  }
}
