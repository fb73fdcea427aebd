import { isCorrectable } from '#db/reconcile/classes.ts';
import type { BilledPart, RecordedAttempt } from '#db/reconcile/compare/attempts.ts';
import { type BillUnit, countedAs } from '#db/reconcile/compare/bill-units.ts';
import type { Piece } from '#db/reconcile/compare/decompose.ts';
import type { ReportedCorrection } from '#db/reconcile/compare/findings.ts';

const INPUT: readonly BilledPart[] = [
  'input',
  'cache_read',
  'cache_write_5m',
  'cache_write_1h',
  'audio_input',
  'image_input',
];
const OUTPUT: readonly BilledPart[] = ['output', 'reasoning', 'audio_output', 'image_output'];

/**
 * The correction by which a request's figures become those of its line on the bill. Pure.
 * @param isFirst whether the piece is the first of its unit: its correction has the tokens.
 * @returns null where the figures are not wrong.
 */
export function correctionOfUnit(
  attempt: RecordedAttempt,
  unit: BillUnit,
  piece: Piece,
  isFirst: boolean,
): ReportedCorrection | null {
  if (!isCorrectable(piece.class)) return null;
  const correction = { request: attempt.request, upstream_cost_nanousd: Number(piece.amount) };
  // The tokens of a call are those of its last attempt.
  if (!isFirst || !attempt.isLast || unit.quantities.size === 0) return correction;
  const billed = (parts: readonly BilledPart[]): number =>
    parts.reduce((sum, part) => sum + Number(unit.quantities.get(part) ?? 0n), 0);
  if (attempt.ending === 'abandoned')
    // The recorded reservation isn't on the bill: the tokens stay, and the cost is corrected.
    return correction;
  const stated = new Set(unit.quantities.keys());
  const recorded = (parts: readonly BilledPart[]): number =>
    parts.reduce((sum, part) => sum + Number(attempt.quantities.get(part) ?? 0n), 0);
  /** Parts that the bill counts with others can't be corrected. */
  const change = (parts: readonly BilledPart[]): number =>
    parts.some((part) => countedAs(part, stated) !== part) ? 0 : billed(parts) - recorded(parts);
  const deltas = {
    input_tokens: billed(INPUT) - recorded(INPUT),
    cache_read_tokens: change(['cache_read']),
    cache_write_tokens: change(['cache_write_5m', 'cache_write_1h']),
    output_tokens: billed(OUTPUT) - recorded(OUTPUT),
    reasoning_tokens: change(['reasoning']),
  };
  return { ...correction, ...Object.fromEntries(Object.entries(deltas).filter(([, delta]) => delta !== 0)) };
}
