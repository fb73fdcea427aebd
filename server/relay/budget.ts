import { isEnforced, REPLY_TOKENS_MAX_DEFAULT, type SubjectLimits } from '#db/limits/limits.ts';
import { type Amounts, isByUsage } from '#db/limits/meters.ts';
import { costBound } from '#db/pricing/bound.ts';
import { GROWTH_TOKENS_MIN } from '#server/relay/bounds.ts';
import type { Reservation } from '#server/limits/reservation.ts';
import type { CallEstimate } from '#server/relay/call-estimate.ts';
import { replyTokensMax } from '#server/limits/call-need.ts';

/**
 * What a streamed reply may still spend, watched as it passes.
 *
 * When three quarters of the hold are used it is doubled, ahead of need. Under a soft limit the
 * reply goes on even when the limit has nothing more to give: it then overdraws, by at most the
 * longest reply that the terms declare. Under a hard quota the upstream was asked to stop in
 * time; one that does not is cut a little beyond, since our count is not the upstream's.
 */
export type BudgetOptions = {
  estimate: CallEstimate;
  hold: Reservation;
  subjects: readonly SubjectLimits[];
  call: {
    /** Takes more for the hold; `grown` is called if and when it did. */
    grow(more: Amounts, grown: () => void): void;
    /** The hold has grown: it is to be recorded. */
    extended(): void;
  };
};

const USED_BEFORE_GROWTH = 0.75;
const MISCOUNT = 1.25;

export class Budget {
  /** The count of tokens at which {@link reached} is to be called next. */
  nextAt: number;
  readonly #options: BudgetOptions;
  /** What the reply may have at most by the call's own limit. */
  readonly #most: number;
  readonly #overdraftMax: number;
  #held: number;
  #isOver = false;

  constructor(options: BudgetOptions) {
    const { estimate, hold, subjects } = options;
    this.#options = options;
    this.#held = hold.tokens - estimate.promptTokens;
    this.#most = estimate.ownLimit === null ? Infinity : estimate.ownLimit * estimate.choices;
    const hasQuota = subjects.some(({ limits }) =>
      limits.some((limit) => isByUsage(limit.meter) && isEnforced(limit)),
    );
    this.#overdraftMax = hasQuota ? (replyTokensMax(subjects) ?? REPLY_TOKENS_MAX_DEFAULT) : Infinity;
    this.nextAt = estimate.isHard ? this.#hardMost() : this.#held * USED_BEFORE_GROWTH;
  }

  /** The reply has come to so many tokens. @returns whether it may go on. */
  reached(counted: number): boolean {
    if (this.#options.estimate.isHard) return counted < this.#hardMost();
    if (counted > this.#held + this.#overdraftMax) return false;
    const more = Math.min(Math.max(this.#held, GROWTH_TOKENS_MIN), this.#most - this.#held);
    if (more <= 0) {
      this.nextAt = this.#held + this.#overdraftMax;
      return true;
    }
    // Asked for again only much later, unless it is given.
    this.nextAt = Math.min(counted * 2 + GROWTH_TOKENS_MIN, this.#held + this.#overdraftMax);
    this.#options.call.grow(this.#amounts(more), () => {
      if (this.#isOver) return;
      this.#held += more;
      this.nextAt = this.#held * USED_BEFORE_GROWTH;
      this.#options.call.extended();
    });
    return true;
  }

  /** The call has ended: what may still be granted is not to be recorded any more. */
  end(): void {
    this.#isOver = true;
  }

  #hardMost(): number {
    return this.#held * MISCOUNT + GROWTH_TOKENS_MIN;
  }

  #amounts(more: number): Amounts {
    const { promptTokens, cost: bound } = this.#options.estimate;
    const cost = (tokens: number): number => (bound ? costBound(bound, promptTokens, tokens) : 0);
    return { tokens: more, cost: cost(this.#held + more) - cost(this.#held) };
  }
}
