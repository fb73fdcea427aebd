import { type ClientBase, DatabaseError } from 'pg';
import { type AllowanceName, compareNames } from '#db/limits/leases.ts';
import { WINDOW_KINDS } from '#db/limits/limits.ts';
import { METERS } from '#db/limits/meters.ts';
import { callAppend, type ControlAppend, controlValues } from '#db/log/append.ts';
import { retryTransaction } from '#db/postgres/retry-transaction.ts';

/** Adjustments of usage, which change allowances in the transaction that appends their events. */

/** Units to add to the usage of one window; below zero they are given back. */
export type AllowanceAdjustment = AllowanceName & {
  amount: number;
  cap: number;
  /** The position of the control event that set the cap. */
  terms: number;
};

/**
 * A window has too few units: settled ones to give back, or free ones to charge. Null: the window isn't the
 * current one, and limits nothing any more.
 */
export class AdjustmentError extends Error {
  override name = 'AdjustmentError';
  readonly adjustment: AllowanceAdjustment | null;
  readonly units: number;
  constructor(adjustment: AllowanceAdjustment | null, units: number, options: ErrorOptions) {
    super('usage not adjusted', options);
    this.adjustment = adjustment;
    this.units = units;
  }
}

const ADJUST = `select daybook.adjust_quotas($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`;

/**
 * Adjusts usage and appends the events that record it, in one transaction. Repeating a call with the same
 * instance and batch number is safe: it returns the first result.
 * @returns the position of the last event.
 * @throws {AdjustmentError} when a window has too few units or is over; nothing is changed.
 * @throws {ConflictError} when a stream has moved on or a claim is taken; nothing is changed.
 * @throws {FencedError} when the instance is no longer live.
 */
export async function adjustQuotas(
  client: ClientBase,
  instance: number,
  batchNo: number,
  adjustments: readonly AllowanceAdjustment[],
  appends: readonly ControlAppend[],
): Promise<number> {
  const ordered = [...adjustments].toSorted(compareNames);
  const values = [
    instance,
    batchNo,
    ordered.map(({ subject }) => subject),
    ordered.map(({ meter }) => METERS[meter].code),
    ordered.map(({ window }) => WINDOW_KINDS[window]),
    ordered.map(({ start }) => start),
    ordered.map(({ reset }) => reset),
    ordered.map(({ cap }) => cap),
    ordered.map(({ terms }) => terms),
    ordered.map(({ amount }) => amount),
    ...controlValues(appends),
  ];
  try {
    return await retryTransaction(() => callAppend(client, 'adjust_quotas', ADJUST, values));
  } catch (error) {
    if (!(error instanceof DatabaseError) || error.code !== 'DB003') throw error;
    const [index, units] = (error.detail ?? '').split(' ').map(Number);
    const short = units === undefined ? undefined : ordered[(index ?? 0) - 1];
    throw new AdjustmentError(short ?? null, units ?? 0, { cause: error });
  }
}
