import type { ControlEvent, EventOf, Placed } from '#db/events/events.ts';
import type { Attempt } from '#db/events/upstream-events.ts';
import { addFigures, type Figures, NO_CORRECTION, recordedFigures } from '#db/fold/correction.ts';
import type { Usage } from '#db/money.ts';
import { type CallPrice, chargeOf, upstreamCostOf } from '#db/pricing/charge.ts';
import { NO_PRICING, type Pricing } from '#server/read-model/access.ts';
import { callPriceOf, pricingOf } from '#server/read-model/call-price.ts';
import type { PriceTable } from '#server/read-model/price-table.ts';
import { ReadModel } from '#server/read-model/read-model.ts';

/** Settled requests of one account and model, and their charges before and after. */
export type RepricedLine = {
  account: string;
  model: string;
  requests: number;
  /** Requests whose charge or upstream cost would be another. */
  changed: number;
  /** Requests without a cost: as recorded, which count as 0; by the other prices, which keep theirs. */
  unpriced_before: number;
  unpriced_after: number;
  /** The charges, and the upstream costs of all attempts. */
  before_nanousd: bigint;
  after_nanousd: bigint;
  upstream_before_nanousd: bigint;
  upstream_after_nanousd: bigint;
};

export type Settled = EventOf<'request.settled'>;
/** A request with its corrected costs, and the amounts that other prices add to them. */
export type RepricedRequest = { event: Settled; before: Figures; more: Figures; isUnpriced: boolean };

/** Whether other prices make a difference. */
export const isChanged = ({ cost_nanousd, upstream_cost_nanousd }: Figures): boolean =>
  cost_nanousd !== 0 || upstream_cost_nanousd !== 0;

/** How an account was charged from a position of the log on. */
type PricedFrom = { position: number; pricing: Pricing };

/**
 * Computes the charges and upstream costs of settled requests by other prices, exactly. Mark-ups and plans
 * are those of the request's admission. Abandoned requests keep the charge of their reservations and are only
 * counted.
 */
export class Repricing {
  readonly #prices: PriceTable;
  readonly #terms = new ReadModel();
  readonly #history = new Map<string, PricedFrom[]>();
  readonly #lines = new Map<string, RepricedLine>();

  /** @param prices the prices to compare with. */
  constructor(prices: PriceTable) {
    this.#prices = prices;
    this.#terms.onChange((accounts) => {
      for (const id of accounts) this.#note(id);
    });
  }

  /** Adds the next control event of the log, from the first one on, since terms come from them. */
  addControl(placed: Placed<ControlEvent>): void {
    this.#terms.apply([placed]);
  }

  #note(account: string): void {
    const history = this.#history.get(account) ?? [];
    this.#history.set(account, history);
    const pricing = pricingOf(this.#terms, account);
    const before = history.at(-1)?.pricing ?? NO_PRICING;
    if (pricing.plan !== before.plan || pricing.markup !== before.markup)
      history.push({ position: this.#terms.position, pricing });
  }

  /**
   * A settled request by the other prices.
   * @param added by its corrections so far.
   */
  price({ event, position }: Placed<Settled>, added: Figures): RepricedRequest {
    const { account, model, terms_position = position } = event;
    const price = callPriceOf({ prices: this.#prices }, this.#pricingAt(account, terms_position), model);
    const before = addFigures(recordedFigures(event), added);
    const after = price === null ? null : costsOf(price, event, added);
    return {
      event,
      before,
      isUnpriced: after === null,
      more: {
        ...NO_CORRECTION,
        cost_nanousd: after === null ? 0 : after.charge - before.cost_nanousd,
        upstream_cost_nanousd: after === null ? 0 : after.upstreamCost - before.upstream_cost_nanousd,
      },
    };
  }

  /** Adds a request to the lines. */
  count({ event, before, more, isUnpriced }: RepricedRequest): void {
    const line = this.#lineOf(event.account, event.model);
    line.requests++;
    if (event.cost_nanousd === undefined) line.unpriced_before++;
    if (isUnpriced) line.unpriced_after++;
    line.before_nanousd += BigInt(before.cost_nanousd);
    line.after_nanousd += BigInt(before.cost_nanousd + more.cost_nanousd);
    line.upstream_before_nanousd += BigInt(before.upstream_cost_nanousd);
    line.upstream_after_nanousd += BigInt(before.upstream_cost_nanousd + more.upstream_cost_nanousd);
    if (isChanged(more)) line.changed++;
  }

  #pricingAt(account: string, termsPosition: number): Pricing {
    const history = this.#history.get(account) ?? [];
    return history.findLast(({ position }) => position <= termsPosition)?.pricing ?? NO_PRICING;
  }

  #lineOf(account: string, model: string): RepricedLine {
    const name = `${account} ${model}`;
    const known = this.#lines.get(name);
    if (known) return known;
    const line = {
      account,
      model,
      requests: 0,
      changed: 0,
      unpriced_before: 0,
      unpriced_after: 0,
      before_nanousd: 0n,
      after_nanousd: 0n,
      upstream_before_nanousd: 0n,
      upstream_after_nanousd: 0n,
    };
    this.#lines.set(name, line);
    return line;
  }

  /** By account and model. */
  get lines(): RepricedLine[] {
    return [...this.#lines].toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([, line]) => line);
  }
}

/** What a request is charged, and what all its attempts cost the operator. */
export function costsOf(
  price: CallPrice,
  event: Settled,
  added: Figures,
): { charge: number; upstreamCost: number } {
  const minute = event.admitted_minute ?? 0;
  const { service_tier: serviceTier, upstream, attempts } = event;
  const usage = usageOf(event, added);
  const { charge, upstreamCost = charge } = chargeOf(price, usage, { minute, serviceTier, upstream });
  if (attempts === undefined || !price.cost) return { charge, upstreamCost };
  // The usage of the last attempt alone is corrected. The service tiers of those before it aren't recorded.
  const costs = attempts.map((attempt, index) => {
    const isLast = index === attempts.length - 1;
    if (attempt.usage_source === undefined) return 0;
    return (
      upstreamCostOf(price, usageOf(attempt, isLast ? added : NO_CORRECTION), {
        minute,
        serviceTier: isLast ? serviceTier : undefined,
        upstream: attempt.upstream,
      }) ?? 0
    );
  });
  return { charge, upstreamCost: costs.reduce((sum, cost) => sum + cost, 0) };
}

type Counts = Pick<Attempt, 'input_tokens' | 'cache_read_tokens' | 'cache_write_tokens' | 'usage_details'> &
  Pick<Attempt, 'output_tokens' | 'reasoning_tokens'>;

function usageOf(used: Counts, added: Figures): Usage {
  const { input_tokens = 0, cache_read_tokens = 0, output_tokens = 0, reasoning_tokens = 0 } = used;
  return {
    input: input_tokens + added.input_tokens,
    cached: cache_read_tokens + added.cache_read_tokens,
    output: output_tokens + added.output_tokens,
    reasoning: reasoning_tokens + added.reasoning_tokens,
    cacheWrite: (used.cache_write_tokens ?? 0) + added.cache_write_tokens,
    ...(used.usage_details === undefined ? {} : { details: used.usage_details }),
  };
}
