import type { ObservedRejection } from '#db/events/admission.ts';
import type { Limit, SubjectLimits } from '#db/limits/limits.ts';
import { unitsReserved } from '#db/limits/meters.ts';
import { minuteOf } from '#db/limits/windows.ts';
import { figuresOf } from '#server/limits/figures.ts';
import { Reservation } from '#server/limits/reservation.ts';
import type { CallNeed, Decide, Outcome } from '#server/limits/waiting-call.ts';

/** A limit of a call that is only observed. */
export type ObservedLimit = { of: SubjectLimits; limit: Limit };

export type ObservedAdmissionOptions = {
  need: CallNeed;
  limits: readonly ObservedLimit[];
  /** Those of subjects that there is no memory for. */
  undecided: readonly ObservedLimit[];
  /** Decides the call by one observed limit in its window of a time. @returns null when `later` is called. */
  judge: (limit: ObservedLimit, atMs: number, later: Decide) => Outcome | null;
  decide: Decide;
};

/** What an observed limit decides; null while it is waiting. */
type Verdict = { limit: ObservedLimit; outcome: Outcome | null };

/**
 * The admission of a call that is charged to observed limits. Its enforced limits decide it. Each observed
 * one then decides as if it were the only one, and the call waits for it as it would for an enforced one.
 * The call isn't charged to those that would have rejected it, nor to those that couldn't decide, since
 * PostgreSQL doesn't answer or another instance keeps their units. Pure.
 *
 * Observed limits don't decide together with enforced ones, which would save a round trip where both are
 * near: units that they reserve for a call that is rejected are missing to another one meanwhile.
 */
export class ObservedAdmission {
  readonly #options: ObservedAdmissionOptions;
  #verdicts: readonly Verdict[] = [];
  #admitted: Reservation | null = null;
  #outcome: Outcome | null = null;
  #isBegun = false;

  constructor(options: ObservedAdmissionOptions) {
    this.#options = options;
  }

  /**
   * @param enforced decides the call by its enforced limits; null when it calls back later.
   * @returns the outcome; null when `decide` is called with it later.
   */
  begin(nowMs: number, enforced: (later: Decide) => Outcome | null): Outcome | null {
    const outcome = enforced((later) => this.#observe(later, nowMs));
    if (outcome) this.#observe(outcome, nowMs);
    this.#isBegun = true;
    return this.#outcome;
  }

  #observe(outcome: Outcome, sinceMs: number): void {
    if (!(outcome instanceof Reservation)) return this.#finish(outcome);
    const { limits, judge } = this.#options;
    this.#admitted = outcome;
    // It is charged to the windows of its admission, also where one has ended while it waited.
    const atMs = minuteOf(sinceMs) === outcome.minute ? sinceMs : outcome.minute * 60_000;
    const verdicts = limits.map((limit): Verdict => ({ limit, outcome: null }));
    this.#verdicts = verdicts;
    for (const verdict of verdicts)
      verdict.outcome = judge(verdict.limit, atMs, (later) => {
        verdict.outcome = later;
        this.#finishIfDecided();
      });
    this.#finishIfDecided();
  }

  #finishIfDecided(): void {
    const call = this.#admitted;
    if (call === null || this.#verdicts.some(({ outcome }) => outcome === null)) return;
    const { undecided, need } = this.#options;
    const charged: Reservation[] = [];
    const rejections = undecided.map((limit) => rejectionOf(limit, need));
    for (const { limit, outcome } of this.#verdicts) {
      if (outcome instanceof Reservation) charged.push(outcome);
      else if (outcome?.kind === 'short')
        rejections.push({ ...rejectionOf(limit, need), free: figuresOf(outcome.counter).remaining });
      else rejections.push(rejectionOf(limit, need));
    }
    call.observe(charged, rejections);
    this.#finish(call);
  }

  #finish(outcome: Outcome): void {
    this.#outcome = outcome;
    if (this.#isBegun) this.#options.decide(outcome);
  }
}

function rejectionOf(
  { of: { subject }, limit: { meter, window, cap } }: ObservedLimit,
  need: CallNeed,
): ObservedRejection {
  return { subject, meter, window, limit: cap, needed: unitsReserved(meter, need.minimum) };
}
