import { isEstimated } from '#db/fold/estimated.ts';
import { OUTCOMES } from '#db/projections/outcomes.ts';
import type { FrameOf, UsageDelta } from '#server/contract/frames.ts';

/**
 * Usage added by settled, rejected and corrected calls, per key and model, counted as the projections count.
 * Pure.
 */
export function usageDeltaOf(
  frames: Iterable<FrameOf<'settled' | 'refused' | 'corrected'>>,
  hasUpstreamCost: boolean,
): UsageDelta[] {
  const rows = new Map<string, UsageDelta>();
  for (const frame of frames) {
    const model = frame.model ?? '';
    const name = `${frame.key} ${model}`;
    let row = rows.get(name);
    if (!row) {
      row = noUsage(frame.account, frame.key, model, hasUpstreamCost);
      rows.set(name, row);
    }
    if (frame.type === 'refused') row.refused += frame.rejected_count;
    else if (frame.type === 'corrected') correct(row, frame);
    else add(row, frame);
  }
  return [...rows.values()];
}

function add(row: UsageDelta, frame: FrameOf<'settled'>): void {
  const isAbandoned = frame.end_reason === 'abandoned';
  const cost = isAbandoned ? frame.hold_cost_nanousd : frame.cost_nanousd;
  row[frame.outcome] += 1;
  row.unpriced += cost === undefined ? 1 : 0;
  row.cost_nanousd = plus(row.cost_nanousd, cost);
  if (row.upstream_cost_nanousd !== undefined)
    row.upstream_cost_nanousd = plus(row.upstream_cost_nanousd, frame.upstream_cost_nanousd ?? cost);
  if (isEstimated(frame.usage_source)) {
    row.estimated += 1;
    row.estimated_cost_nanousd = plus(row.estimated_cost_nanousd, cost);
  }
  row.input_tokens += frame.input_tokens ?? 0;
  row.cache_read_tokens += frame.cache_read_tokens ?? 0;
  row.cache_write_tokens += frame.cache_write_tokens ?? 0;
  row.output_tokens += frame.output_tokens ?? 0;
  row.reasoning_tokens += frame.reasoning_tokens ?? 0;
  // The charge of an abandoned request is in place of its reservation.
  row.abandoned_tokens += isAbandoned ? (frame.hold_tokens ?? 0) : 0;
}

function correct(row: UsageDelta, frame: FrameOf<'corrected'>): void {
  const cost = frame.cost_nanousd;
  row.corrections += 1;
  row.cost_nanousd = plus(row.cost_nanousd, cost);
  row.correction_cost_nanousd = plus(row.correction_cost_nanousd, cost);
  if (row.upstream_cost_nanousd !== undefined)
    row.upstream_cost_nanousd = plus(row.upstream_cost_nanousd, frame.upstream_cost_nanousd ?? cost);
  row.input_tokens += frame.input_tokens ?? 0;
  row.cache_read_tokens += frame.cache_read_tokens ?? 0;
  row.cache_write_tokens += frame.cache_write_tokens ?? 0;
  row.output_tokens += frame.output_tokens ?? 0;
  row.reasoning_tokens += frame.reasoning_tokens ?? 0;
  row.abandoned_tokens += frame.hold_tokens ?? 0;
}

const plus = (sum: string, more: number | undefined): string => String(BigInt(sum) + BigInt(more ?? 0));

function noUsage(account: string, key: string, model: string, hasUpstreamCost: boolean): UsageDelta {
  const byOutcome = Object.fromEntries(OUTCOMES.map((outcome) => [outcome, 0])) as Record<
    (typeof OUTCOMES)[number],
    number
  >;
  return {
    account,
    key,
    model,
    ...byOutcome,
    unpriced: 0,
    estimated: 0,
    corrections: 0,
    input_tokens: 0,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    output_tokens: 0,
    reasoning_tokens: 0,
    abandoned_tokens: 0,
    cost_nanousd: '0',
    ...(hasUpstreamCost ? { upstream_cost_nanousd: '0' } : {}),
    estimated_cost_nanousd: '0',
    correction_cost_nanousd: '0',
  };
}
