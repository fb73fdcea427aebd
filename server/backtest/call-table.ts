import type { Cell } from '#db/csv.ts';
import type { DifferingCall } from '#server/contract/backtest.ts';

/** Calls with another outcome as a table. Pure. */

export const CALL_COLUMNS = [
  'position',
  'at',
  'request',
  'account',
  'key',
  'end_user',
  'model',
  'outcome',
  'error_code',
  'limit_subject',
  'limit_meter',
  'limit_window',
  'limit',
  'needed',
  'free',
  'count',
] as const;

/** The cells of a call, in the order of {@link CALL_COLUMNS}: of several short limits the first. */
export function callCells({ limits, ...call }: DifferingCall): Cell[] {
  const [limit] = limits;
  const cells: Record<(typeof CALL_COLUMNS)[number], Cell> = {
    ...call,
    limit_subject: limit?.subject,
    limit_meter: limit?.meter,
    limit_window: limit?.window,
    limit: limit?.cap,
    needed: limit?.needed,
    free: limit?.free,
  };
  return CALL_COLUMNS.map((column) => cells[column]);
}
