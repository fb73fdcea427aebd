import type { EventOf } from '#db/events/events.ts';
import type { Stored } from '#db/fold/stored.ts';
import type { PriceTerms } from '#db/pricing/parts.ts';

/** What calls of a model, or of all models whose names begin alike, cost. */
export type Price = {
  /** A model's name, or the beginning of names with `*` at its end. */
  pattern: string;
  /** The plan whose accounts are charged this; null: it is what the provider charges. */
  plan: string | null;
  terms: PriceTerms;
  /** `manual`, or the list that it was imported from. */
  source: string;
  /** The version that its stream has reached; the next event takes `version + 1`. */
  version: number;
};

/** The price after the next event of its stream, which replaces the one before. */
export function evolvePrice({ event, version }: Stored<EventOf<'model.priced'>>): Price {
  const { model, plan = null, base, rules, source } = event;
  return { pattern: model, plan, terms: rules === undefined ? { base } : { base, rules }, source, version };
}
