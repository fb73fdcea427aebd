import { z } from 'zod';
import { Actor } from '#db/events/parts.ts';

/** Corrections of ended requests. Pure. */

/** Why a request was corrected, for the people who read the log later. */
export const CorrectionReason = z.string().trim().min(1).max(200);
/**
 * What the correction comes from: a repricing, a provider's bill, a ticket. A request is corrected once for
 * each reference. Printable ASCII without a blank at either end.
 */
export const CorrectionReference = z.string().regex(/^[\x21-\x7e](?:[\x20-\x7e]{0,126}[\x21-\x7e])?$/);

/** An amount to add to a figure; below zero it is subtracted. */
const Delta = z.int();

/** The amounts that a correction adds, by the fields of the figures. */
export const CorrectionDeltas = {
  /** To the charge of the account. */
  cost_nanousd: Delta.optional(),
  /** To the operator's cost, where that is another amount. */
  upstream_cost_nanousd: Delta.optional(),
  input_tokens: Delta.optional(),
  cache_read_tokens: Delta.optional(),
  cache_write_tokens: Delta.optional(),
  output_tokens: Delta.optional(),
  reasoning_tokens: Delta.optional(),
  /** Of an abandoned request, which is charged a part of its reservation. */
  hold_tokens: Delta.optional(),
};

/** The origin of a correction. `adjusted_by` is as the `actor` of control events. */
export const CorrectionOrigin = {
  reference: CorrectionReference,
  reason: CorrectionReason,
  adjusted_by: Actor,
};

/** The names of the figures that a correction can change. */
export const CORRECTED_FIGURES = Object.keys(CorrectionDeltas) as (keyof typeof CorrectionDeltas)[];
export type CorrectedFigure = (typeof CORRECTED_FIGURES)[number];
export type Corrections = { [Figure in CorrectedFigure]?: number | undefined };
