import type { Usage } from '#db/money.ts';
import { type CostBound, highestCost, likelyCost } from '#db/pricing/bound.ts';
import { costOf, roundCost } from '#db/pricing/cost.ts';
import type { PricedPart, UnitCounts } from '#db/pricing/parts.ts';
import { type Circumstances, ofTier, rateAt, type Schedule } from '#db/pricing/schedule.ts';

/** What an account is charged for a call, and what the call costs the operator. Pure. */

/** A price as calls use it. */
export type PriceInForce = { schedule: Schedule; version: number };

/** The prices of a model for the accounts of a plan. At least one of the two is set. */
export type CallPrice = {
  /** What the provider charges. */
  cost: PriceInForce | undefined;
  /** What the plan charges instead. */
  sell: PriceInForce | undefined;
  plan: string | null;
  /** What the plan adds to the cost where it has no price of its own, in basis points. */
  markup: number;
};

/** The prices of calls that all have one service tier. */
export function priceOfTier({ cost, sell, ...price }: CallPrice, tier: string): CallPrice {
  const of = (part: PriceInForce | undefined): PriceInForce | undefined =>
    part && { ...part, schedule: ofTier(part.schedule, tier) };
  return { ...price, cost: of(cost), sell: of(sell) };
}

/** All in nano-dollars, rounded once. */
export type Charge = {
  charge: number;
  /** What the call costs the operator; absent: no price is set, or the same as the charge. */
  upstreamCost?: number;
  /** The version of the price by which the call was charged. */
  version: number;
  /** Parts with usage that have no price, and are not in the charge. */
  unpriced?: PricedPart[];
};

/** The charge of a usage. */
export function chargeOf(
  { cost, sell, markup }: CallPrice,
  usage: Usage,
  call: Omit<Circumstances, 'inputTokens'>,
): Charge {
  const circumstances = { ...call, inputTokens: usage.input };
  const upstream = cost && costOf(usage, rateAt(cost.schedule, circumstances));
  const sold = sell && costOf(usage, rateAt(sell.schedule, circumstances));
  const exact = sold ?? upstream;
  const charged: Charge = {
    charge: exact ? roundCost(exact, sold ? 0 : markup) : 0,
    version: (sell ?? cost)?.version ?? 0,
  };
  const upstreamCost = upstream && roundCost(upstream);
  if (upstreamCost !== undefined && upstreamCost !== charged.charge) charged.upstreamCost = upstreamCost;
  if (exact?.unpriced) charged.unpriced = exact.unpriced;
  return charged;
}

/** What a usage costs the operator, in nano-dollars; null: no price is set. */
export function upstreamCostOf(
  { cost }: CallPrice,
  usage: Usage,
  call: Omit<Circumstances, 'inputTokens'>,
): number | null {
  return cost ? roundCost(costOf(usage, rateAt(cost.schedule, { ...call, inputTokens: usage.input }))) : null;
}

/**
 * The bound of the charge of a request whose prompt has at most so many tokens.
 * @param kind `highest` for any classes of tokens and any rule; `likely` for an ordinary request.
 * @param units that it can cause.
 */
export function chargeBound(
  { cost, sell, markup }: CallPrice,
  kind: 'highest' | 'likely',
  inputTokens: number,
  minute: number,
  units: UnitCounts = {},
): CostBound {
  const price = sell ?? cost;
  if (!price) return NO_COST;
  const bound = kind === 'highest' ? highestCost : likelyCost;
  return bound(price.schedule, sell ? 0 : markup, inputTokens, minute, units);
}

const NO_COST: CostBound = { lines: [], markup: 0 };
