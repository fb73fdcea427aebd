import type { METERED_FIGURES } from '#db/spend/sink-config.ts';
import type { SpendEvent } from '#db/spend/spend-event.ts';

/** What a meter counts of a spend event; 0: nothing. Negative for corrections. Pure. */
export function meteredValue(event: SpendEvent, figure: (typeof METERED_FIGURES)[number]): number {
  switch (figure) {
    case 'requests':
      return event.type === 'request.settled' || event.type === 'request.abandoned' ? 1 : 0;
    case 'cost_nanousd':
      return event.cost_nanousd ?? 0;
    case 'tokens':
      return (event.input_tokens ?? 0) + (event.output_tokens ?? 0) + (event.hold_tokens ?? 0);
    case 'input_tokens':
      return event.input_tokens ?? 0;
    case 'output_tokens':
      return event.output_tokens ?? 0;
  }
}
