import { isDeepStrictEqual } from 'node:util';
import type { Placed } from '#db/events/events.ts';
import { type ScrapedValue, sumOf } from './scrape.ts';

/** Figures of a server process, by its counters and by the log. */
export type CountedFigures = {
  accepted: number;
  settled: Record<string, number>;
  inputTokens: number;
  outputTokens: number;
  costNanoUsd: number;
};

/** What a process has counted since its start. */
export function countedBy(values: readonly ScrapedValue[], process: string): CountedFigures {
  const own = values.filter(({ labels }) => labels['process'] === process);
  const settled: Record<string, number> = {};
  for (const { name, labels, value } of own)
    if (name === 'daybook_requests_total')
      settled[labels['outcome'] ?? ''] = (settled[labels['outcome'] ?? ''] ?? 0) + value;
  return {
    accepted: sumOf(own, 'daybook_requests_accepted_total'),
    settled,
    inputTokens: sumOf(own, 'daybook_tokens_total', { type: 'input' }),
    outputTokens: sumOf(own, 'daybook_tokens_total', { type: 'output' }),
    costNanoUsd: Math.round(sumOf(own, 'daybook_cost_usd_total') * 1e9),
  };
}

/** What the log has of an instance. A process that was never fenced has one instance. */
export function loggedBy(events: readonly Placed[], instance: number): CountedFigures {
  const figures: CountedFigures = {
    accepted: 0,
    settled: {},
    inputTokens: 0,
    outputTokens: 0,
    costNanoUsd: 0,
  };
  for (const { event, instance: by } of events) {
    if (by !== instance) continue;
    if (event.type === 'request.accepted') figures.accepted++;
    if (event.type !== 'request.settled') continue;
    figures.settled[event.end_reason] = (figures.settled[event.end_reason] ?? 0) + 1;
    figures.inputTokens += event.input_tokens;
    figures.outputTokens += event.output_tokens;
    figures.costNanoUsd += event.cost_nanousd ?? 0;
  }
  return figures;
}

/** The server processes of a scrape whose counters differ from the log. */
export function miscounted(
  values: readonly ScrapedValue[],
  events: readonly Placed[],
): { process: string; counted: CountedFigures; logged: CountedFigures }[] {
  return serversOf(values)
    .map(({ process, instance }) => ({
      process,
      counted: countedBy(values, process),
      logged: loggedBy(events, instance),
    }))
    .filter(({ counted, logged }) => !isDeepStrictEqual(counted, logged));
}

/** The server processes of a scrape with the instances that they append as. */
export const serversOf = (values: readonly ScrapedValue[]): { process: string; instance: number }[] =>
  values
    .filter(({ name, labels }) => name === 'daybook_instance' && labels['process']?.startsWith('server-'))
    .map(({ labels, value }) => ({ process: labels['process'] ?? '', instance: value }));
