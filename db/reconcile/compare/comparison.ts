import type { Bill } from '#db/reconcile/bill/line.ts';
import { CELLS_MAX, CLOCK_SKEW_MS, EXAMPLES_MAX, MARGIN_MS, ZONE_MAX_MS } from '#db/reconcile/bounds.ts';
import type { RecordedAttempt } from '#db/reconcile/compare/attempts.ts';
import {
  type BillUnit,
  type BillUnits,
  billUnits,
  type Mapping,
  tierOf,
} from '#db/reconcile/compare/bill-units.ts';
import { CellNames } from '#db/reconcile/compare/cell-names.ts';
import { correctionOfUnit } from '#db/reconcile/compare/corrections.ts';
import { daysOf } from '#db/reconcile/compare/days.ts';
import { type DecomposeContext, decompose, type Piece } from '#db/reconcile/compare/decompose.ts';
import { absolute } from '#db/reconcile/compare/exact.ts';
import { type Cell, type Difference, Findings, type Tolerance } from '#db/reconcile/compare/findings.ts';
import { Leftovers } from '#db/reconcile/compare/leftovers.ts';
import { addAttempt, emptyRecorded, type Recorded } from '#db/reconcile/compare/recorded.ts';
import { Sums } from '#db/reconcile/compare/sums.ts';

export type CompareOptions = Mapping & {
  tolerance: Tolerance;
  /** The credentials of the relay, those that were removed included. */
  credentials: ReadonlyMap<string, string>;
  knownCredentials: ReadonlySet<string>;
  /** The upstreams that the bill is for; null: all. */
  upstreams: ReadonlySet<string> | null;
  otherRates: DecomposeContext['otherRates'];
};

/** The amounts of one day, model, credential and tier; nano-dollars as text. */
export type ComparedCell = Cell & {
  requests: number;
  bill_nanousd: string;
  log_nanousd: string;
  charged_nanousd: string;
};

export type Compared = {
  totals: {
    bill: bigint;
    log: bigint;
    charged: bigint;
    /** The sum of the classed differences. */
    differences: bigint;
    /** The bill's total minus the log's and the differences: 0 where every difference has a class. */
    unexplained: bigint;
    requests: number;
    foreign: ReadonlyMap<string, bigint>;
  };
  differences: Difference[];
  cells: ComparedCell[];
};

type CellSums = Cell & { requests: number; bill: bigint; log: bigint; charged: bigint };

/**
 * Compares a bill with the log, of which it takes one call after another, in any order. It keeps the bill,
 * sums by day, model, credential and tier, and a bounded number of calls that the bill doesn't have. Pure.
 */
export class Comparison {
  /** The interval of the bill. */
  readonly #fromMs: number;
  readonly #toMs: number;
  readonly #options: CompareOptions;
  readonly #units: BillUnits;
  readonly #context: DecomposeContext;
  readonly #findings: Findings;
  readonly #leftovers: Leftovers;
  readonly #sums: Sums;
  readonly #dayOf: (ms: number) => string;
  readonly #matched = new Set<string>();
  readonly #cells = new Map<string, CellSums>();
  readonly #names = new CellNames();
  readonly #billModels: ReadonlySet<string>;
  #log = 0n;
  #charged = 0n;
  #requests = 0;

  constructor(bill: Bill, options: CompareOptions) {
    this.#fromMs = bill.from.getTime();
    this.#toMs = bill.to.getTime();
    this.#options = options;
    this.#units = billUnits(bill, options);
    const tiers = bill.lines.some(({ serviceTier }) => serviceTier !== null);
    this.#context = { roundedTo: this.#units.roundedTo, hasTier: tiers, otherRates: options.otherRates };
    this.#findings = new Findings(options.tolerance);
    this.#dayOf = daysOf(bill.timeZone);
    const { models } = options;
    this.#billModels = new Set(
      bill.lines.flatMap(({ model }) => (model === null ? [] : [models.get(model) ?? model])),
    );
    this.#sums = new Sums(this.#units, bill);
    this.#leftovers = new Leftovers(this.#units.parts);
    for (const { line, credential, cost } of this.#units.adjustments) {
      const cell = {
        day: this.#dayOf(line.from.getTime()),
        model: line.model,
        credential,
        service_tier: tierOf(line.serviceTier),
      };
      this.#count(cell, { bill: cost });
      if (line.kind === 'usage') continue;
      this.#findings.add({
        cell,
        piece: { class: line.kind, amount: cost, detail: null },
        billed: cost,
        places: [line.place],
        requests: line.requestId === null ? [] : [{ request: null, provider_request: line.requestId }],
        correction: null,
      });
    }
  }

  /** The calls that can be on the bill: those that ended between these times. */
  get range(): { from: Date; to: Date } {
    return { from: new Date(this.#fromMs - MARGIN_MS), to: new Date(this.#toMs + MARGIN_MS) };
  }

  /** Adds an ended call of the log. */
  addCall(attempts: readonly RecordedAttempt[]): void {
    const own = attempts.filter((attempt) => this.#concerns(attempt));
    const units = own.map(({ providerRequest }) =>
      providerRequest === null ? undefined : this.#units.byRequest.get(providerRequest),
    );
    const isCorrected = own.some((attempt) => attempt.isCorrected);
    if (isCorrected && own.length > 1 && units.every((unit) => unit !== undefined)) {
      // Corrections are of the call: where its sum is the bill's, no attempt differs.
      const billed = units.reduce((sum, unit) => sum + unit.cost, 0n);
      if (billed === own.reduce((sum, { cost }) => sum + cost, 0n)) {
        own.forEach((attempt, index) => {
          const unit = units[index] as BillUnit;
          this.#take(attempt, unit);
          this.#count(this.#cellOf(attempt, unit), { bill: unit.cost });
        });
        return;
      }
    }
    own.forEach((attempt, index) => this.#addAttempt(attempt, units[index]));
  }

  #concerns({ upstream, startMs }: RecordedAttempt): boolean {
    if (startMs < this.#fromMs - MARGIN_MS || startMs >= this.#toMs + MARGIN_MS) return false;
    const { upstreams } = this.#options;
    return upstreams === null || upstream === null || upstreams.has(upstream);
  }

  /**
   * Whether a call is in the interval. A file's interval is from its first line to its last, so that a call
   * that the bill has is in it on all of these days.
   */
  #isInInterval({ startMs }: RecordedAttempt, isBilled: boolean): boolean {
    if (startMs >= this.#fromMs && startMs < this.#toMs) return true;
    const edgeMs = startMs < this.#fromMs ? this.#fromMs : Math.max(this.#fromMs, this.#toMs - 1);
    return isBilled && this.#dayOf(startMs) === this.#dayOf(edgeMs);
  }

  #addAttempt(attempt: RecordedAttempt, unit: BillUnit | undefined): void {
    const named = this.#named(attempt);
    if (unit !== undefined && !this.#matched.has(unit.requestId as string)) {
      this.#take(named, unit);
      this.#compareRequest(named, unit);
      return;
    }
    if (!this.#isInInterval(attempt, false)) return;
    this.#take(named, null);
    const isSummed = named.ending === 'abandoned' ? this.#sums.addAbandoned(named) : this.#sums.add(named);
    if (!isSummed) this.#leftovers.add(named);
  }

  /** The attempt with the name first that the bill has for its model. */
  #named(attempt: RecordedAttempt): RecordedAttempt {
    const billed = attempt.names.find((name) => this.#billModels.has(name));
    if (billed === undefined || billed === attempt.names[0]) return attempt;
    return { ...attempt, names: [billed, ...attempt.names.filter((name) => name !== billed)] };
  }

  /** Counts an attempt of the interval in the totals. */
  #take(attempt: RecordedAttempt, unit: BillUnit | null): void {
    if (unit !== null) this.#matched.add(unit.requestId ?? '');
    if (!this.#isInInterval(attempt, unit !== null)) return;
    this.#requests++;
    this.#log += attempt.cost;
    this.#charged += attempt.charged;
    const { cost, charged } = attempt;
    this.#count(this.#cellOf(attempt, unit), { log: cost, charged, requests: 1 });
  }

  /** The cell of an attempt, under the names that the bill has for it. */
  #cellOf(attempt: RecordedAttempt, unit: BillUnit | null): Cell {
    return {
      day: this.#dayOf(attempt.startMs),
      model: unit?.model ?? attempt.names[0] ?? null,
      credential: unit?.credential ?? attempt.credential,
      service_tier: unit ? tierOf(unit.serviceTier) : tierOf(attempt.serviceTier),
    };
  }

  #compareRequest(attempt: RecordedAttempt, unit: BillUnit): void {
    const cell = this.#cellOf(attempt, unit);
    const log = this.#recordedOf([attempt]);
    this.#count(cell, { bill: unit.cost + unit.repeatedCost });
    const add = (piece: Piece, correction: ReturnType<typeof correctionOfUnit> = null): void =>
      this.#findings.add({
        cell,
        piece,
        billed: unit.cost,
        places: unit.places,
        requests: [{ request: attempt.request, provider_request: attempt.providerRequest }],
        correction,
      });
    if (unit.repeated > 0) add({ class: 'duplicate', amount: unit.repeatedCost, detail: null });
    const shift = this.#shiftOf(attempt, unit);
    if (!this.#isInInterval(attempt, true)) {
      // Its cost is in no total of the log.
      add({
        class: shift ?? 'day_boundary',
        amount: attempt.cost,
        detail: 'the call is not in the interval',
      });
    } else if (shift !== null) add({ class: shift, amount: 0n, detail: bookedAt(unit) });
    decompose(unit, log, this.#context).forEach((piece, index) =>
      add(piece, correctionOfUnit(attempt, unit, piece, index === 0)),
    );
  }

  /** Whether the bill has a call at a time at which it did not run. */
  #shiftOf(
    { startMs, endMs }: RecordedAttempt,
    { fromMs, toMs }: BillUnit,
  ): 'day_boundary' | 'late_usage' | null {
    if (fromMs <= endMs + CLOCK_SKEW_MS && toMs >= startMs - CLOCK_SKEW_MS) return null;
    const isOtherDay =
      this.#dayOf(fromMs) !== this.#dayOf(startMs) && this.#dayOf(fromMs) !== this.#dayOf(endMs);
    if (!isOtherDay) return null;
    const apart = Math.min(absoluteMs(fromMs - endMs), absoluteMs(startMs - toMs));
    return apart <= ZONE_MAX_MS ? 'day_boundary' : 'late_usage';
  }

  #recordedOf(attempts: readonly RecordedAttempt[]): Recorded {
    const recorded = emptyRecorded();
    for (const attempt of attempts) addAttempt(recorded, attempt, this.#units.parts, EXAMPLES_MAX);
    return recorded;
  }

  #count(cell: Cell, added: { bill?: bigint; log?: bigint; charged?: bigint; requests?: number }): void {
    const key = this.#names.of(cell.day, cell.model, cell.credential, cell.service_tier);
    let sums = this.#cells.get(key);
    if (!sums) this.#cells.set(key, (sums = { ...cell, requests: 0, bill: 0n, log: 0n, charged: 0n }));
    sums.requests += added.requests ?? 0;
    sums.bill += added.bill ?? 0n;
    sums.log += added.log ?? 0n;
    sums.charged += added.charged ?? 0n;
  }

  /** Compares the rest, and returns the result. No call can be added afterwards. */
  finish(): Compared {
    const left = [...this.#units.byRequest.values()].filter(
      ({ requestId }) => !this.#matched.has(requestId as string),
    );
    this.#leftovers.match([...left, ...this.#units.anonymous], this.#options.knownCredentials, {
      context: this.#context,
      found: (unit, attempt, pieces) => this.#addLeftover(unit, attempt, pieces),
      summed: (cell, cost, count) =>
        this.#findings.add({
          cell: { ...cell, day: this.#dayOf(Number(cell.day)) },
          piece: { class: 'missing_there', amount: -cost, detail: `${count} requests` },
          billed: 0n,
          places: [],
          requests: [],
          correction: null,
        }),
    });
    this.#sums.compare(this.#options.knownCredentials, this.#context, (unit, recorded, pieces) => {
      const cell = {
        day: this.#dayOf(unit.fromMs),
        model: unit.model,
        credential: unit.credential,
        service_tier: tierOf(unit.serviceTier),
      };
      this.#count(cell, { bill: unit.cost });
      for (const piece of pieces)
        this.#findings.add({
          cell,
          piece,
          billed: unit.cost,
          places: unit.places,
          requests: recorded.examples.map(({ request, providerRequest }) => ({
            request,
            provider_request: providerRequest,
          })),
          correction: null,
        });
    });
    return this.#result();
  }

  #addLeftover(unit: BillUnit | null, attempt: RecordedAttempt | null, pieces: readonly Piece[]): void {
    const cell = attempt
      ? this.#cellOf(attempt, unit)
      : {
          day: this.#dayOf((unit as BillUnit).fromMs),
          model: unit?.model ?? null,
          credential: unit?.credential ?? null,
          service_tier: tierOf(unit?.serviceTier ?? null),
        };
    if (unit) this.#count(cell, { bill: unit.cost + unit.repeatedCost });
    pieces.forEach((piece, index) =>
      this.#findings.add({
        cell,
        piece,
        billed: unit?.cost ?? 0n,
        places: unit?.places ?? [],
        requests: [
          {
            request: attempt?.request ?? null,
            provider_request: unit?.requestId ?? attempt?.providerRequest ?? null,
          },
        ],
        correction: unit && attempt ? correctionOfUnit(attempt, unit, piece, index === 0) : null,
      }),
    );
  }

  #result(): Compared {
    const explained = this.#log + this.#findings.total;
    const unexplained = this.#units.total - explained;
    return {
      totals: {
        bill: this.#units.total,
        log: this.#log,
        charged: this.#charged,
        differences: this.#findings.total,
        unexplained,
        requests: this.#requests,
        foreign: this.#units.foreign,
      },
      differences: this.#findings.differences,
      cells: boundedCells([...this.#cells.values()]),
    };
  }
}

const absoluteMs = Math.abs;
const bookedAt = ({ fromMs }: BillUnit): string => `booked at ${new Date(fromMs).toISOString()}`;

/** The cells by day and names; of too many those that differ most, and the sum of the others. */
function boundedCells(cells: readonly CellSums[]): ComparedCell[] {
  const apart = ({ bill, log }: CellSums): bigint => absolute(bill - log);
  const largest =
    cells.length <= CELLS_MAX ? cells : cells.toSorted((a, b) => (apart(a) > apart(b) ? -1 : 1));
  const [shown, others] = [largest.slice(0, CELLS_MAX), largest.slice(CELLS_MAX)];
  const rest = others.reduce(
    (sum, { requests, bill, log, charged }) => ({
      ...sum,
      requests: sum.requests + requests,
      bill: sum.bill + bill,
      log: sum.log + log,
      charged: sum.charged + charged,
    }),
    {
      day: '',
      model: null,
      credential: null,
      service_tier: null,
      requests: 0,
      bill: 0n,
      log: 0n,
      charged: 0n,
    },
  );
  const keyOf = ({ day, model, credential, service_tier }: Cell): string =>
    JSON.stringify([day, model, credential, service_tier]);
  return [
    ...shown.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1)),
    ...(others.length > 0 ? [rest] : []),
  ].map(({ bill, log, charged, ...cell }) => ({
    ...cell,
    bill_nanousd: String(bill),
    log_nanousd: String(log),
    charged_nanousd: String(charged),
  }));
}
