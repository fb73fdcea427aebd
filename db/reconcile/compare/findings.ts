import { DIFFERENCE_CLASSES, type DifferenceClass, isCorrectable } from '#db/reconcile/classes.ts';
import { CORRECTIONS_MAX, DIFFERENCES_MAX, EXAMPLES_MAX } from '#db/reconcile/bounds.ts';
import type { Piece } from '#db/reconcile/compare/decompose.ts';
import { absolute } from '#db/reconcile/compare/exact.ts';

/** Differences, merged into rows of one class, day, model, credential and tier. Pure. */

/** The amounts that are added to the figures of a request so that they become those of the bill. */
export type ReportedCorrection = {
  request: string;
  upstream_cost_nanousd: number;
  input_tokens?: number;
  cache_read_tokens?: number;
  cache_write_tokens?: number;
  output_tokens?: number;
  reasoning_tokens?: number;
  hold_tokens?: number;
};

export type Cell = {
  day: string;
  model: string | null;
  credential: string | null;
  service_tier: string | null;
};

export type Difference = Cell & {
  /** Counts from 1 in the report. */
  id: number;
  class: DifferenceClass;
  /** Whether it is below the stated tolerance. It is in all sums all the same. */
  is_within_tolerance: boolean;
  /** Requests, or sums of requests, that differ. */
  count: number;
  /** The bill's amount minus the log's. */
  amount_nanousd: string;
  detail: string | null;
  /** Lines of the bill, some. */
  places: string[];
  requests: { request: string | null; provider_request: string | null }[];
  /** Complete, or empty where the requests are not known or too many. */
  corrections: ReportedCorrection[];
};

/** An absolute and a relative part: a difference up to the larger of the two is within it. */
export type Tolerance = { nanousd: bigint; ppm: number };

export type Finding = {
  cell: Cell;
  piece: Piece;
  /** What the provider billed for the unit, to which the tolerance is relative. */
  billed: bigint;
  places: readonly string[];
  requests: Difference['requests'];
  correction: ReportedCorrection | null;
};

type Row = Omit<Difference, 'id' | 'amount_nanousd'> & { amount: bigint; isComplete: boolean };

/** Gathers findings in rows; their number and size are bounded, their sums are exact. */
export class Findings {
  readonly #tolerance: Tolerance;
  readonly #rows = new Map<string, Row>();
  #corrections = 0;

  constructor(tolerance: Tolerance) {
    this.#tolerance = tolerance;
  }

  add({ cell, piece, billed, places, requests, correction }: Finding): void {
    const isWithin = this.#isWithin(piece.amount, billed);
    const row = this.#rowOf(cell, piece, isWithin);
    row.count++;
    row.amount += piece.amount;
    for (const place of places) if (row.places.length < EXAMPLES_MAX) row.places.push(place);
    for (const request of requests) if (row.requests.length < EXAMPLES_MAX) row.requests.push(request);
    if (!row.isComplete) return;
    if (correction !== null && this.#corrections < CORRECTIONS_MAX) {
      row.corrections.push(correction);
      this.#corrections++;
      return;
    }
    row.isComplete = false;
    this.#corrections -= row.corrections.length;
    row.corrections = [];
  }

  #isWithin(amount: bigint, billed: bigint): boolean {
    const { nanousd, ppm } = this.#tolerance;
    const relative = (absolute(billed) * BigInt(ppm)) / 1_000_000n;
    return amount !== 0n && absolute(amount) <= (relative > nanousd ? relative : nanousd);
  }

  #rowOf(cell: Cell, piece: Piece, isWithin: boolean): Row {
    const key = JSON.stringify([cell, piece.class, isWithin]);
    const known = this.#rows.get(key);
    if (known) {
      if (known.detail !== piece.detail) known.detail = null;
      return known;
    }
    // Further ones are one row for each class.
    if (this.#rows.size >= DIFFERENCES_MAX && cell.day !== '')
      return this.#rowOf({ day: '', model: null, credential: null, service_tier: null }, piece, isWithin);
    const row: Row = {
      ...cell,
      class: piece.class,
      is_within_tolerance: isWithin,
      count: 0,
      amount: 0n,
      detail: piece.detail,
      places: [],
      requests: [],
      corrections: [],
      isComplete: isCorrectable(piece.class),
    };
    this.#rows.set(key, row);
    return row;
  }

  /** The sum of all amounts. */
  get total(): bigint {
    return [...this.#rows.values()].reduce((sum, { amount }) => sum + amount, 0n);
  }

  /** By class, and the largest amounts first. */
  get differences(): Difference[] {
    const order = (row: Row): number => DIFFERENCE_CLASSES.indexOf(row.class);
    return [...this.#rows.values()]
      .toSorted(
        (one, other) =>
          order(one) - order(other) ||
          compare(absolute(other.amount), absolute(one.amount)) ||
          compare(JSON.stringify(cellOf(one)), JSON.stringify(cellOf(other))),
      )
      .map(({ amount, isComplete, ...row }, index) => ({
        id: index + 1,
        ...row,
        corrections: isComplete ? row.corrections : [],
        amount_nanousd: String(amount),
      }));
  }
}

const cellOf = ({ day, model, credential, service_tier }: Cell): Cell => ({
  day,
  model,
  credential,
  service_tier,
});

const compare = <T extends bigint | string>(one: T, other: T): number =>
  one < other ? -1 : one > other ? 1 : 0;
