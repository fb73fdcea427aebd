import type { FrameOf } from '#server/contract/frames.ts';
import type { UsageFigures } from '#server/contract/usage.ts';

/** Sums over calls, as pages show them: counted from reports and from the live feed alike. Pure. */
export type Tally = {
  /** Calls that ended as they should, or that the client left. */
  served: number;
  /** Accepted calls that ended badly: at the upstream, here, or cut short by a limit. */
  failed: number;
  refused: number;
  input_tokens: number;
  output_tokens: number;
  cost_microusd: number;
};

export const noTally = (): Tally => ({
  served: 0,
  failed: 0,
  refused: 0,
  input_tokens: 0,
  output_tokens: 0,
  cost_microusd: 0,
});

/** An ending, as the feed tells it. */
export type Ending = FrameOf<'settled' | 'refused'>;

/** Counts one ending in, as the projections count it. */
export function countEnding(tally: Tally, frame: Ending): void {
  if (frame.type === 'refused') {
    tally.refused += frame.refused_count;
    return;
  }
  if (frame.outcome === 'completed' || frame.outcome === 'client_gone') tally.served += 1;
  else tally.failed += 1;
  tally.input_tokens += frame.input_tokens ?? 0;
  tally.output_tokens += frame.output_tokens ?? 0;
  // What an abandoned call used nobody knows: its hold stays charged.
  tally.cost_microusd +=
    (frame.end_reason === 'abandoned' ? frame.hold_cost_microusd : frame.cost_microusd) ?? 0;
}

/** The same sums of a report. */
export const tallyOf = (figures: UsageFigures): Tally => ({
  served: figures.completed + figures.client_gone,
  failed: figures.upstream_failed + figures.cut_short + figures.relay_failed,
  refused: figures.refused,
  input_tokens: figures.input_tokens,
  output_tokens: figures.output_tokens,
  cost_microusd: figures.cost_microusd,
});

/** Adds `more` to `tally`. */
export function addTally(tally: Tally, more: Tally): void {
  for (const name of Object.keys(tally) as (keyof Tally)[]) tally[name] += more[name];
}

/** All calls, refused ones too. */
export const callsOf = ({ served, failed, refused }: Tally): number => served + failed + refused;

/** The share of calls that were refused or failed; null where there were none. */
export function errorShareOf(tally: Tally): number | null {
  const calls = callsOf(tally);
  return calls === 0 ? null : (tally.failed + tally.refused) / calls;
}
