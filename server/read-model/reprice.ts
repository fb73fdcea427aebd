import { isControl, type EventOf, type Placed } from '#db/events/events.ts';
import { chargeOf } from '#db/pricing/charge.ts';
import { NO_PRICING, type Pricing } from '#server/read-model/access.ts';
import { callPriceOf, pricingOf } from '#server/read-model/call-price.ts';
import type { PriceTable } from '#server/read-model/price-table.ts';
import { ReadModel } from '#server/read-model/read-model.ts';

/** Settled requests of one account and model, and their charges before and after. */
export type RepricedLine = {
  account: string;
  model: string;
  requests: number;
  /** Requests whose charge would be another. */
  changed: number;
  /** Requests without a cost: as recorded, and by the prices that are compared. They count as 0. */
  unpriced_before: number;
  unpriced_after: number;
  before_nanousd: bigint;
  after_nanousd: bigint;
};

type Settled = EventOf<'request.settled'>;
/** How an account was charged from a position of the log on. */
type PricedFrom = { position: number; pricing: Pricing };

/**
 * Computes the charges of settled requests by other prices, exactly. Mark-ups and plans are those of the
 * request's admission. Abandoned requests keep the charge of their reservations and are only counted.
 */
export class Repricing {
  abandoned = 0;
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

  /** Adds the next event of the log; control events from the first one on, since terms come from them. */
  add(placed: Placed): void {
    if (isControl(placed)) this.#terms.apply([placed]);
    else if (placed.event.type === 'request.settled') this.#reprice(placed.event, placed.position);
    else if (placed.event.type === 'request.abandoned') this.abandoned++;
  }

  #note(account: string): void {
    const history = this.#history.get(account) ?? [];
    this.#history.set(account, history);
    const pricing = pricingOf(this.#terms, account);
    const before = history.at(-1)?.pricing ?? NO_PRICING;
    if (pricing.plan !== before.plan || pricing.markup !== before.markup)
      history.push({ position: this.#terms.position, pricing });
  }

  #reprice(event: Settled, position: number): void {
    const { account, model, terms_position = position, admitted_minute = 0, cost_nanousd } = event;
    const line = this.#lineOf(account, model);
    const price = callPriceOf({ prices: this.#prices }, this.#pricingAt(account, terms_position), model);
    const call = {
      minute: admitted_minute,
      serviceTier: event.service_tier,
      upstream: event.upstream,
    };
    const after = price && chargeOf(price, usageOf(event), call).charge;
    line.requests++;
    if (cost_nanousd === undefined) line.unpriced_before++;
    if (after === null) line.unpriced_after++;
    line.before_nanousd += BigInt(cost_nanousd ?? 0);
    line.after_nanousd += BigInt(after ?? 0);
    if ((cost_nanousd ?? 0) !== (after ?? 0)) line.changed++;
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
    };
    this.#lines.set(name, line);
    return line;
  }

  /** By account and model. */
  get lines(): RepricedLine[] {
    return [...this.#lines].toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([, line]) => line);
  }
}

function usageOf(event: Settled): Parameters<typeof chargeOf>[1] {
  const { input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens } = event;
  return {
    input: input_tokens,
    cached: cache_read_tokens,
    output: output_tokens,
    reasoning: reasoning_tokens,
    ...(cache_write_tokens === undefined ? {} : { cacheWrite: cache_write_tokens }),
    ...(event.usage_details === undefined ? {} : { details: event.usage_details }),
  };
}
