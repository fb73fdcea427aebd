import type { CallPrice } from '#db/pricing/charge.ts';
import { markedUp, type PriceTerms } from '#db/pricing/parts.ts';
import { NO_PRICING, type Pricing } from '#server/read-model/access.ts';
import type { PriceTable } from '#server/read-model/price-table.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';

/** How the calls of an account are charged. */
export function pricingOf(readModel: ReadModel, account: string): Pricing {
  const found = readModel.account(account);
  return (found && readModel.accountAccess(found)?.pricing) ?? NO_PRICING;
}

/** The prices of a model for an account; null: none is set. */
export function callPriceOf(
  { prices }: Pick<ReadModel, 'prices'>,
  { plan, markup }: Pricing,
  model: string,
): CallPrice | null {
  const cost = prices.find(model);
  const sell = plan === null ? undefined : prices.findOfPlan(plan, model);
  return cost || sell ? { cost, sell, plan, markup } : null;
}

/** What the accounts of a plan are charged for a model, for display; null: no price is set. */
export function termsForPlan(
  prices: PriceTable,
  { plan, markup }: Pricing,
  model: string,
): PriceTerms | null {
  const sell = plan === null ? undefined : prices.findOfPlan(plan, model);
  if (sell) return sell.terms;
  const cost = prices.find(model);
  if (!cost) return null;
  const { base, rules } = cost.terms;
  const raised = { base: markedUp(base, markup) };
  return rules === undefined
    ? raised
    : { ...raised, rules: rules.map(({ when, rate }) => ({ when, rate: markedUp(rate, markup) })) };
}
