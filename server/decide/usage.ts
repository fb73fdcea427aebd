import type { EventOf } from '#db/events/events.ts';
import {
  CORRECTED_FIGURES,
  type CorrectedFigure,
  CorrectionReason,
  CorrectionReference,
  type Corrections,
} from '#db/events/usage-events.ts';
import {
  addedFigures,
  addFigures,
  correctionOf,
  type EndedEvent,
  type Figures,
  recordedFigures,
} from '#db/fold/correction.ts';
import { DecisionError } from '#server/decide/decision.ts';

/** An ended request, and what its corrections so far add. */
export type EndedRequest = { event: EndedEvent; added: Figures; references: readonly string[] };

/** What a correction changes, where it comes from, and why. */
export type Correction = { deltas: Corrections; reference: string; reason: string };

const NAMES: Record<CorrectedFigure, string> = {
  cost_nanousd: 'charge in nano-dollars',
  upstream_cost_nanousd: 'upstream cost in nano-dollars',
  input_tokens: 'input tokens',
  cache_read_tokens: 'cache read tokens',
  cache_write_tokens: 'cache write tokens',
  output_tokens: 'output tokens',
  reasoning_tokens: 'reasoning tokens',
  hold_tokens: 'reserved tokens',
};
/** Parts, and the figure that they are parts of. */
const PARTS: readonly (readonly [parts: readonly CorrectedFigure[], whole: CorrectedFigure])[] = [
  [['cache_read_tokens', 'cache_write_tokens'], 'input_tokens'],
  [['reasoning_tokens'], 'output_tokens'],
];
const COSTS: ReadonlySet<CorrectedFigure> = new Set(['cost_nanousd', 'upstream_cost_nanousd']);

/**
 * Corrects the figures of an ended request. Its windows that are not over are charged when the event is
 * appended.
 * @throws {DecisionError} `already_done` when it was corrected with the reference; `invalid` when a corrected
 *   figure would be impossible.
 */
export function correctUsage(
  { event, added, references }: EndedRequest,
  { deltas, actor, ...origin }: Correction & { actor: string },
): EventOf<'usage.adjusted'> {
  const reference = CorrectionReference.safeParse(origin.reference);
  if (!reference.success)
    throw new DecisionError('invalid', 'A reference has 1 to 128 printable ASCII characters.');
  const reason = CorrectionReason.safeParse(origin.reason);
  if (!reason.success) throw new DecisionError('invalid', 'A reason has 1 to 200 characters.');
  if (references.includes(reference.data))
    throw new DecisionError(
      'already_done',
      `Request ${event.request} was corrected with the reference "${reference.data}" already.`,
    );
  const more = addedFigures(deltas);
  if (CORRECTED_FIGURES.every((figure) => more[figure] === 0))
    throw new DecisionError('invalid', 'A correction must change a figure: each amount is 0.');
  checkFigures(event, more, addFigures(addFigures(recordedFigures(event), added), more));
  return correctionOf(event, more, { reference: reference.data, reason: reason.data, adjusted_by: actor });
}

/** Whether a request can have such figures. */
function checkFigures({ type, request }: EndedEvent, more: Figures, after: Figures): void {
  const isAbandoned = type === 'request.abandoned';
  for (const figure of CORRECTED_FIGURES) {
    const isOfOther = !COSTS.has(figure) && (figure === 'hold_tokens') !== isAbandoned;
    if (isOfOther && more[figure] !== 0)
      throw new DecisionError(
        'invalid',
        isAbandoned
          ? `Request ${request} was abandoned: it is charged a part of its reservation. Correct its ` +
              'reserved tokens.'
          : `Request ${request} has reported its usage, so it has no reserved tokens to correct.`,
      );
    if (after[figure] < 0)
      throw new DecisionError(
        'invalid',
        `The ${NAMES[figure]} of request ${request} would be ${after[figure]}, below 0.`,
      );
    if (!Number.isSafeInteger(after[figure]))
      throw new DecisionError('invalid', `The ${NAMES[figure]} of request ${request} would be too many.`);
  }
  for (const [parts, whole] of PARTS)
    if (parts.reduce((sum, part) => sum + after[part], 0) > after[whole])
      throw new DecisionError(
        'invalid',
        `The ${parts.map((part) => NAMES[part]).join(' and ')} of request ${request} would exceed its ` +
          `${NAMES[whole]}, which they are a part of.`,
      );
}
