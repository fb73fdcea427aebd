import { roundCost, Sum } from '#db/pricing/cost.ts';
import { MARKUP_MIN, type UnitCounts, UNITS } from '#db/pricing/parts.ts';
import { type FullRate, possibleRates, rateAt, type Schedule } from '#db/pricing/schedule.ts';

/** How much a request can cost before its reply is known. Pure. */

/** The prices of one token of the prompt and of the reply, per million; the fees, with the cost of units. */
type Line = { input: number; output: number; per_request: number; minimum: number };
/** A request costs what one of these lines says, with a mark-up in basis points. */
export type CostBound = { readonly lines: readonly Line[]; readonly markup: number };

/** A request admitted now is recorded with this or one of the next minutes: it may wait for its units. */
const ADMISSION_MINUTES = 5;
const MILLION = 1_000_000n;
const BASIS = BigInt(-MARKUP_MIN);
const MOST = BigInt(Number.MAX_SAFE_INTEGER);

/**
 * The bound of a request whose prompt has at most so many tokens, whichever classes its tokens are of and
 * whichever rule will apply.
 * @param minute now, in minutes since 1970.
 * @param units at most.
 */
export function highestCost(
  schedule: Schedule,
  markup: number,
  inputTokens: number,
  minute: number,
  units: UnitCounts = {},
): CostBound {
  const rates = possibleRates(schedule, inputTokens, [minute, minute + ADMISSION_MINUTES]);
  return {
    lines: rates.map((rate) => ({
      input: rate.inputMax,
      output: rate.outputMax,
      per_request: rate.per_request + unitCost(rate, units),
      minimum: rate.minimum,
    })),
    markup,
  };
}

/**
 * The same of an ordinary request: its prompt is text that is in no cache, and its service tier the default.
 */
export function likelyCost(
  schedule: Schedule,
  markup: number,
  inputTokens: number,
  minute: number,
  units: UnitCounts = {},
): CostBound {
  const rate = rateAt(schedule, { minute, inputTokens, serviceTier: undefined, upstream: undefined });
  const { input, output, reasoning, minimum } = rate;
  const per_request = rate.per_request + unitCost(rate, units);
  const line = { input: input ?? 0, output: Math.max(output ?? 0, reasoning ?? 0), per_request, minimum };
  return { lines: [line], markup };
}

/** What units cost at a rate, rounded up to a nano-dollar. */
function unitCost(rate: FullRate, units: UnitCounts): number {
  // Hardly any call has them, and this runs for each.
  let sum: Sum | null = null;
  for (const unit of UNITS) {
    const count = units[unit] ?? 0;
    if (count > 0) (sum ??= new Sum(0)).addUnits(unit, count, rate[unit] ?? 0);
  }
  if (sum === null) return 0;
  const { whole, fraction } = sum.atLeast(0);
  return fraction === 0 ? whole : whole + 1;
}

/** What so many tokens cost at most, in nano-dollars. Never falls with more tokens. */
export function costBound({ lines, markup }: CostBound, inputTokens: number, outputTokens: number): number {
  let highest = 0;
  for (const line of lines) {
    const sum = new Sum(line.per_request);
    sum.addTokens('input', inputTokens, line.input);
    sum.addTokens('output', outputTokens, line.output);
    const cost = roundCost(sum.atLeast(line.minimum), markup);
    if (cost > highest) highest = cost;
  }
  return highest;
}

/**
 * The longest reply with which a request fits into an amount: its {@link costBound} is within, and that of
 * one more token is not. 0 also if the prompt alone costs more; `Number.MAX_SAFE_INTEGER` if tokens are free.
 */
export function outputTokensFor({ lines, markup }: CostBound, amount: number, inputTokens: number): number {
  const factor = BASIS + BigInt(markup);
  if (factor === 0n) return amount < 0 ? 0 : Number.MAX_SAFE_INTEGER;
  // The greatest exact cost that rounds to the amount, in millionths of a nano-dollar.
  const most = (BigInt(amount) * MILLION * BASIS + (MILLION * BASIS) / 2n - 1n) / factor;
  let tokens = MOST;
  for (const { input, output, per_request, minimum } of lines) {
    const slack = most - BigInt(per_request) * MILLION - BigInt(inputTokens) * BigInt(input);
    if (amount < 0 || slack < 0n || most < BigInt(minimum) * MILLION) return 0;
    if (output > 0 && slack / BigInt(output) < tokens) tokens = slack / BigInt(output);
  }
  return Number(tokens);
}
