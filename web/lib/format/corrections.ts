import type { RequestCorrection } from '#server/contract/requests.ts';
import { showCost, showCount } from './show.ts';

/** Corrections of requests in words. Pure. */

export const CORRECTED_NAMES = {
  cost_nanousd: 'charge',
  upstream_cost_nanousd: 'upstream cost',
  input_tokens: 'input tokens',
  cache_read_tokens: 'cached tokens',
  cache_write_tokens: 'cache write tokens',
  output_tokens: 'output tokens',
  reasoning_tokens: 'reasoning tokens',
  hold_tokens: 'charged tokens',
} as const satisfies { [Figure in keyof RequestCorrection]?: string };
type CorrectedFigure = keyof typeof CORRECTED_NAMES;
export const CORRECTED_FIGURES = Object.keys(CORRECTED_NAMES) as CorrectedFigure[];

export const showFigure = (figure: CorrectedFigure, amount: number): string =>
  figure.endsWith('_nanousd') ? showCost(amount) : showCount(amount);

/** What a correction adds: "−$0.42 charge". */
export function changesOf(correction: RequestCorrection): string[] {
  return CORRECTED_FIGURES.flatMap((figure) => {
    const amount = correction[figure] ?? 0;
    if (amount === 0) return [];
    return [`${amount < 0 ? '−' : '+'}${showFigure(figure, Math.abs(amount))} ${CORRECTED_NAMES[figure]}`];
  });
}
