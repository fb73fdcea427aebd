import { isEstimated } from '#db/fold/estimated.ts';
import type { FrameOf } from '#server/contract/frames.ts';
import type { UsageFigures } from '#server/contract/usage.ts';

/** Sums over requests, from reports and from the live feed. Pure. */
export type Tally = {
  /** Completed requests, and those that the client disconnected from. */
  successful: number;
  /** Accepted requests that failed at the upstream or here, or were stopped by a limit. */
  failed: number;
  rejected: number;
  input_tokens: number;
  output_tokens: number;
  cost_nanousd: bigint;
  /** The part of the cost whose usage the provider did not report. */
  estimated_cost_nanousd: bigint;
  corrections: number;
  /** The part of the cost that corrections added, which can be negative. */
  correction_cost_nanousd: bigint;
};

export const noTally = (): Tally => ({
  successful: 0,
  failed: 0,
  rejected: 0,
  input_tokens: 0,
  output_tokens: 0,
  cost_nanousd: 0n,
  estimated_cost_nanousd: 0n,
  corrections: 0,
  correction_cost_nanousd: 0n,
});

/** A frame that ends a request. */
export type Ending = FrameOf<'settled' | 'refused'>;
/** A frame that changes figures. */
export type Counted = Ending | FrameOf<'corrected'>;

/** Adds an ended or corrected request, as the projections count it. */
export function countEnding(tally: Tally, frame: Counted): void {
  if (frame.type === 'corrected') {
    tally.input_tokens += frame.input_tokens ?? 0;
    tally.output_tokens += frame.output_tokens ?? 0;
    const added = BigInt(frame.cost_nanousd ?? 0);
    tally.cost_nanousd += added;
    tally.corrections += 1;
    tally.correction_cost_nanousd += added;
    return;
  }
  if (frame.type === 'refused') {
    tally.rejected += frame.rejected_count;
    return;
  }
  if (frame.outcome === 'completed' || frame.outcome === 'client_disconnected') tally.successful += 1;
  else tally.failed += 1;
  tally.input_tokens += frame.input_tokens ?? 0;
  tally.output_tokens += frame.output_tokens ?? 0;
  // The usage of an abandoned request is unknown: its reservation stays charged.
  const cost = BigInt((frame.end_reason === 'abandoned' ? frame.hold_cost_nanousd : frame.cost_nanousd) ?? 0);
  tally.cost_nanousd += cost;
  if (isEstimated(frame.usage_source)) tally.estimated_cost_nanousd += cost;
}

/** The sums of a report. */
export const tallyOf = (figures: UsageFigures): Tally => ({
  successful: figures.completed + figures.client_disconnected,
  failed: figures.upstream_failed + figures.cut_short + figures.relay_failed,
  rejected: figures.refused,
  input_tokens: figures.input_tokens,
  output_tokens: figures.output_tokens,
  cost_nanousd: BigInt(figures.cost_nanousd),
  estimated_cost_nanousd: BigInt(figures.estimated_cost_nanousd),
  corrections: figures.corrections,
  correction_cost_nanousd: BigInt(figures.correction_cost_nanousd),
});

/** Adds `more` to `tally`. */
export function addTally(tally: Tally, more: Tally): void {
  tally.successful += more.successful;
  tally.failed += more.failed;
  tally.rejected += more.rejected;
  tally.input_tokens += more.input_tokens;
  tally.output_tokens += more.output_tokens;
  tally.cost_nanousd += more.cost_nanousd;
  tally.estimated_cost_nanousd += more.estimated_cost_nanousd;
  tally.corrections += more.corrections;
  tally.correction_cost_nanousd += more.correction_cost_nanousd;
}

/** All requests, including rejected ones. */
export const requestCountOf = ({ successful, failed, rejected }: Tally): number =>
  successful + failed + rejected;

/** The share of rejected and failed requests; null without requests. */
export function errorShareOf(tally: Tally): number | null {
  const calls = requestCountOf(tally);
  return calls === 0 ? null : (tally.failed + tally.rejected) / calls;
}
