import type { AllowanceName, LeaseLine, LeaseLineResponse } from '#db/limits/leases.ts';
import type { Limit, WindowKind } from '#db/limits/limits.ts';
import type { Meter } from '#db/limits/meters.ts';
import { windowEnd } from '#db/limits/windows.ts';
import { STOCK_MS } from '#server/limits/bounds.ts';

/**
 * This instance's lease of one allowance, in memory. Pure: it knows no clock and no store.
 *
 * All that was granted is in one of four places: given back, settled, held by running requests, or
 * free to spend here. Only {@link Counter.take} moves anything from free to held, and only when it
 * is there; that is the whole reason why an instance can't spend more than it leased.
 */
export class Counter implements AllowanceName {
  readonly subject: string;
  readonly meter: Meter;
  readonly window: WindowKind;
  readonly start: number;
  readonly reset: number;
  /** The first minute after the window. */
  readonly end: number;
  cap: number;
  terms: number;
  /** The oldest terms that any call was charged here under. */
  since: number;
  /** The allowance's number in the store; null until the first answer. */
  allowance: number | null = null;
  /** The end is near: what is free goes back at once, and every admission is asked for. */
  strict = false;
  /** Something has changed that the store should be told some time. */
  unreported = false;
  /**
   * Of the whole allowance, by the last answer: what nobody had leased, was settled, was held, was leased.
   */
  known = { free: 0, used: 0, held: 0, leased: 0 };
  /** Calls that need this much or more were found to have no chance in this time. */
  spent: { minimum: number; fromMs: number; untilMs: number } | null = null;
  /** Units taken in a second, lately: it tells the size of a useful stock. */
  demand = 0;
  /** What the last call took: the next one will need about as much. */
  lastTaken = 0;
  #taken = 0;
  readonly #press: (counter: Counter) => void;
  #granted = 0;
  #returned = 0;
  #used = 0;
  #overdrawn = 0;
  #held = 0;
  /** Recalled since the last report: an answer to that one can't undo it. */
  #isRecalled = false;

  /** @param press called when the store should be told something now. */
  constructor(
    subject: string,
    limit: Limit,
    start: number,
    terms: number,
    press: (counter: Counter) => void,
  ) {
    this.#press = press;
    this.subject = subject;
    this.meter = limit.meter;
    this.window = limit.window;
    this.start = start;
    this.reset = limit.reset;
    this.end = windowEnd(limit.window, start);
    this.cap = limit.cap;
    this.terms = terms;
    this.since = terms;
  }

  /** What can be spent here without asking. */
  get free(): number {
    return this.#granted - this.#returned - this.#used - this.#held;
  }

  get held(): number {
    return this.#held;
  }

  /**
   * The best knowledge of what is left for everybody, without asking: what others have in stock is missing.
   */
  get remaining(): number {
    return Math.max(0, this.known.free + this.free);
  }

  /** Whether the store knows all of this lease and has all that is free of it back. */
  get isSettled(): boolean {
    return this.#held === 0 && this.free === 0 && !this.unreported;
  }

  /** Moves an amount from free to held. @returns false, and moves nothing, when it is not there. */
  take(amount: number): boolean {
    if (amount > this.free) return false;
    this.#held += amount;
    this.#taken += amount;
    this.lastTaken = amount;
    return true;
  }

  /** Gives a hold back whole: nothing of it was spent. */
  release(amount: number): void {
    this.#held -= amount;
    this.#changed();
  }

  /**
   * Turns a hold into what was really spent. Only to be called when that is in the log for good:
   * else a crash would show an instance over its lease. More than the hold comes out of what is
   * free here, and beyond that it is overdrawn.
   */
  settle(hold: number, spent: number): void {
    this.#held -= hold;
    const covered = Math.min(spent, this.free);
    this.#used += covered;
    this.#overdrawn += spent - covered;
    this.#changed();
    // What others may still spend is less than the store believes.
    if (covered < spent) this.press();
  }

  /**
   * Terms of a call. Newer ones make the lease strict until the store has said what they mean: even
   * if they give more than the last that were known here, others may have had more still between.
   */
  setCap(cap: number, terms: number): void {
    this.since = Math.min(this.since, terms);
    if (terms <= this.terms) return;
    this.cap = cap;
    this.terms = terms;
    this.spent = null;
    this.recall();
    this.press();
  }

  /**
   * Gives back what is free, as soon as the store can be told. One that is strict has done so, or is
   * about to: were it told once more, instances that wait for one another would never pause.
   */
  recall(): void {
    this.#isRecalled = true;
    if (this.strict) return;
    this.strict = true;
    this.press();
  }

  /** What a strict lease did not know of when it last reported goes back, too. */
  returnSurplus(): void {
    if (this.strict && this.free > 0) this.press();
  }

  /** The store should hear of it now. */
  press(): void {
    this.unreported = true;
    this.#press(this);
  }

  /** A second has passed. */
  tick(): void {
    this.demand = Math.max(this.#taken, this.demand / 2);
    this.#taken = 0;
  }

  /**
   * What is to be said to the store now. All that is free goes back with it where the lease is
   * strict, and where a call is short: it is then decided on all that there is.
   * @param short what calls like those that are short would make useful to have in stock; null: none is.
   */
  report(short: number | null): LeaseLine {
    const stock = this.#stock(short ?? 0);
    if (this.strict || short !== null) this.#returned += this.free;
    this.#isRecalled = false;
    // Before the first answer it is not known what an earlier lease of the same name had reported,
    // so nothing is: totals are only told on top of the store's.
    const isKnown = this.allowance !== null;
    this.unreported = !isKnown;
    return {
      subject: this.subject,
      meter: this.meter,
      window: this.window,
      start: this.start,
      reset: this.reset,
      cap: this.cap,
      terms: this.terms,
      since: this.since,
      returned: isKnown ? this.#returned : 0,
      used: isKnown ? this.#used : 0,
      overdrawn: isKnown ? this.#overdrawn : 0,
      held: this.#held,
      strict: this.strict,
      stock: this.strict ? 0 : stock,
    };
  }

  /** What the store said. */
  answered(answer: LeaseLineResponse): void {
    if (this.allowance === null) {
      // A lease that was forgotten while it was idle: its totals go on from where they were.
      this.#returned += answer.own.returned;
      this.#used += answer.own.used;
      this.#overdrawn += answer.own.overdrawn;
    }
    this.allowance = answer.allowance;
    this.#granted = Math.max(this.#granted, answer.granted);
    const leased = answer.cap - answer.free - answer.used;
    this.known = { free: answer.free, used: answer.used, held: answer.held, leased };
    // The store has to hear that we know, before it can tell others that nothing is left over here.
    if (answer.near) this.recall();
    else if (this.#isRecalled) this.press();
    else this.strict = false;
  }

  /** As much as is useful: for some more calls like those that wait, or as was used in the last seconds. */
  #stock(byNeeds: number): number {
    const byDemand = (this.demand * STOCK_MS) / 1_000;
    const useful = Math.ceil(Math.max(byNeeds, byDemand, this.lastTaken));
    return byNeeds > 0 ? useful : Math.max(0, useful - this.free);
  }

  #changed(): void {
    this.unreported = true;
    // What came back may serve a call like those that were refused.
    if (this.free > 0) this.spent = null;
    // Near the end others wait for what is left, and people look at the figures.
    if (this.strict) this.press();
  }
}
