import type { UsageFigures } from '#server/contract/usage.ts';
import { showCost, showDuration, showShort } from '../../lib/format/show.ts';

/** Metrics of the usage page. Pure. */
export const METRICS = {
  requests: {
    name: 'Requests',
    show: showShort,
    valueOf: (figures: UsageFigures) => figures.requests + figures.refused,
  },
  tokens: {
    name: 'Tokens',
    show: showShort,
    valueOf: (figures: UsageFigures) => figures.input_tokens + figures.output_tokens,
  },
  cost: { name: 'Cost', show: showCost, valueOf: (figures: UsageFigures) => Number(figures.cost_nanousd) },
  times: {
    name: 'Time to first token',
    show: showDuration,
    valueOf: (figures: UsageFigures) => figures.first_byte_p95_ms ?? 0,
  },
} as const;
export type Metric = keyof typeof METRICS;
