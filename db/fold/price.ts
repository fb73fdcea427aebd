import type { EventOf } from '#db/events/events.ts';
import type { Prices } from '#db/money.ts';

/** What calls of a model, or of all models whose names begin alike, cost. */
export type Price = {
  /** A model's name, or the beginning of names with `*` at its end. It names the stream. */
  pattern: string;
  prices: Prices;
  /** `manual`, or the snapshot that it was imported from. */
  source: string;
  /** How many events its stream has; the next one takes `version + 1`. */
  version: number;
};

/** The price after one more event of its own stream. */
export function evolvePrice(price: Price | undefined, event: EventOf<'model.priced'>): Price {
  return {
    pattern: event.model,
    prices: event.prices,
    source: event.source,
    version: (price?.version ?? 0) + 1,
  };
}
