import type { EventOf } from '#db/events/events.ts';
import type { Stored } from '#db/fold/stored.ts';
import type { Prices } from '#db/money.ts';

/** What calls of a model, or of all models whose names begin alike, cost. */
export type Price = {
  /** A model's name, or the beginning of names with `*` at its end. It names the stream. */
  pattern: string;
  prices: Prices;
  /** `manual`, or the snapshot that it was imported from. */
  source: string;
  /** The version that its stream has reached; the next event takes `version + 1`. */
  version: number;
};

/** The price after the next event of its stream, which replaces the one before. */
export function evolvePrice({ event, version }: Stored<EventOf<'model.priced'>>): Price {
  return { pattern: event.model, prices: event.prices, source: event.source, version };
}
