import type { AllowanceName, LeaseLine, LeaseLineResponse } from '#db/limits/leases.ts';
import type { Limit, WindowKind } from '#db/limits/limits.ts';
import type { Meter } from '#db/limits/meters.ts';
import { windowEnd } from '#db/limits/windows.ts';
import { SCARCE_CALLS, SCARCE_MS, STOCK_MS } from '#server/limits/bounds.ts';

/**
 * This instance's lease of one allowance. Pure: time passes by calls of {@link Counter.tick}.
 *
 * Every granted unit is in exactly one of four states: returned, used (settled), held (reserved by
 * running calls) or free. Only {@link Counter.reserve} moves units from free to held, and only if
 * enough are free, so an instance can't use more than it leased.
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
  /** The oldest terms of the calls charged to it. */
  since: number;
  /** The allowance's number in Postgres; null until the first response. */
  allowance: number | null = null;
  /** The limit is near: free units are returned at once, and every admission needs a grant. */
  strict = false;
  /** It has changed since the last report. */
  unreported = false;
  /**
   * The whole allowance in the last response: units not leased, settled, held, and leased by all instances.
   */
  reported = { free: 0, used: 0, held: 0, leased: 0 };
  /** Calls that need at least `minimum` units are rejected in this time without a request. */
  exhausted: { minimum: number; fromMs: number; untilMs: number } | null = null;
  /** Units reserved per second, lately. The stock to request follows from it. */
  demand = 0;
  /** The units of the last call: the next one will need about as many. */
  lastReserved = 0;
  /** The reservations that include it, also with no units. */
  reservations = 0;
  #reservedThisSecond = 0;
  readonly #onReportDue: (counter: Counter) => void;
  #granted = 0;
  #returned = 0;
  #used = 0;
  #overdrawn = 0;
  #held = 0;
  /** Recalled since the last report: the response to that report does not end it. */
  #isRecalled = false;
  /** No call has needed it for a while: it returns its units, and the lease ends. */
  #closes = false;

  /** @param onReportDue called when a report should be part of the next lease request. */
  constructor(
    subject: string,
    limit: Limit,
    start: number,
    terms: number,
    onReportDue: (counter: Counter) => void,
  ) {
    this.#onReportDue = onReportDue;
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

  /** Units that can be reserved without a lease request. */
  get free(): number {
    return this.#granted - this.#returned - this.#used - this.#held;
  }

  get held(): number {
    return this.#held;
  }

  /** Whether the calls of the next moments may need more units than are free here. */
  get isScarce(): boolean {
    const perSecond = Math.max(this.demand, this.#reservedThisSecond);
    return this.strict || this.free < SCARCE_CALLS * this.lastReserved + (perSecond * SCARCE_MS) / 1_000;
  }

  /** A lower bound of the units left, without a request: the free units of other instances are missing. */
  get remaining(): number {
    return Math.max(0, this.reported.free + this.free);
  }

  /** Whether everything was reported, no units are free or held, and no reservation includes it. */
  get isSettled(): boolean {
    return this.#held === 0 && this.free === 0 && !this.unreported && this.reservations === 0;
  }

  /** Whether it was closed, has returned everything, and no call has needed it since. */
  get isClosed(): boolean {
    return this.#closes && this.isSettled;
  }

  /** Moves units from free to held. @returns false, without a change, when too few are free. */
  reserve(units: number): boolean {
    if (units > this.free) return false;
    this.#closes = false;
    this.#held += units;
    this.#reservedThisSecond += units;
    this.lastReserved = units;
    return true;
  }

  /** Moves all reserved units of a call back to free. */
  release(units: number): void {
    this.#held -= units;
    this.#changed();
  }

  /**
   * Replaces the reserved units of a call by those it used. Only to be called when its end is
   * durable in the log: otherwise a crash would show an instance above its lease. Units beyond the
   * reservation come out of the free units, and the rest is overdrawn.
   */
  settle(reserved: number, used: number): void {
    this.#held -= reserved;
    const covered = Math.min(used, this.free);
    this.#used += covered;
    this.#overdrawn += used - covered;
    this.#changed();
    // Postgres still counts the overdrawn units as free for other instances.
    if (covered < used) this.reportSoon();
  }

  /**
   * Sets the cap of a call's terms. Newer terms make the lease strict until the next response: even
   * where they raise the cap known here, terms in between may have raised it more.
   */
  setCap(cap: number, terms: number): void {
    this.since = Math.min(this.since, terms);
    if (terms <= this.terms) return;
    this.cap = cap;
    this.terms = terms;
    this.exhausted = null;
    this.recall();
    this.reportSoon();
  }

  /**
   * Makes the lease strict, so that its free units return with the next report. A strict lease has
   * one due already; another one would keep instances that wait for each other from ever pausing.
   */
  recall(): void {
    this.#isRecalled = true;
    if (this.strict) return;
    this.strict = true;
    this.reportSoon();
  }

  /** Returns its units and ends the lease, unless a call needs it before the next report. */
  close(): void {
    if (this.#closes) return;
    this.#closes = true;
    this.reportSoon();
  }

  /** Returns units of a strict lease that became free after its last report. */
  returnSurplus(): void {
    if (this.strict && this.free > 0) this.reportSoon();
  }

  /** Makes a report due in the next lease request. */
  reportSoon(): void {
    this.unreported = true;
    this.#onReportDue(this);
  }

  /** Once a second. */
  tick(): void {
    this.demand = Math.max(this.#reservedThisSecond, this.demand / 2);
    this.#reservedThisSecond = 0;
  }

  /**
   * The report of the lease. It returns all free units where the lease is strict, and where a call
   * is short: Postgres then decides that call on all free units together.
   * @param short the stock that would be useful for calls like the short ones; null where no call is short.
   */
  report(short: number | null): LeaseLine {
    if (short !== null || this.#held > 0 || this.reservations > 0) this.#closes = false;
    const stock = this.#closes ? 0 : this.#stock(short ?? 0);
    if (this.strict || this.#closes || short !== null) this.#returned += this.free;
    this.#isRecalled = false;
    // Totals continue those in Postgres, which are unknown until the first response: an earlier
    // lease of the same allowance may have reported some.
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
      closes: this.#closes,
      stock: this.strict ? 0 : stock,
    };
  }

  /** Applies the line of a lease response. */
  applyResponse(line: LeaseLineResponse): void {
    if (this.allowance === null) {
      // The lease was dropped here while it was idle: its totals continue.
      this.#returned += line.own.returned;
      this.#used += line.own.used;
      this.#overdrawn += line.own.overdrawn;
    }
    this.allowance = line.allowance;
    this.#granted = Math.max(this.#granted, line.granted);
    const leased = line.cap - line.free - line.used;
    this.reported = { free: line.free, used: line.used, held: line.held, leased };
    // Units were given back.
    if (this.exhausted && line.free >= this.exhausted.minimum) this.exhausted = null;
    // Postgres must know that the lease is strict before it reports to others that nothing can be recalled.
    if (line.near) this.recall();
    else if (this.#isRecalled) this.reportSoon();
    else this.strict = false;
  }

  /** The useful stock: for some more calls like the waiting ones, or for the demand of the next seconds. */
  #stock(byNeeds: number): number {
    const byDemand = (this.demand * STOCK_MS) / 1_000;
    const useful = Math.ceil(Math.max(byNeeds, byDemand, this.lastReserved));
    return byNeeds > 0 ? useful : Math.max(0, useful - this.free);
  }

  #changed(): void {
    this.unreported = true;
    // The released units may be enough for a call like those that were rejected.
    if (this.free > 0) this.exhausted = null;
    // Near the limit other instances wait for these units.
    if (this.strict) this.reportSoon();
  }
}
