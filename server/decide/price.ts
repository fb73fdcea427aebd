import { MODEL_NAME } from '#db/events/parts.ts';
import { type EventOf } from '#db/events/events.ts';
import type { Price } from '#db/fold/price.ts';
import type { Prices } from '#db/money.ts';
import { DecisionError } from '#server/decide/decision.ts';

/** The source of a manually set price. */
export const MANUAL = 'manual';

/** A price that can be imported, with notes about it. */
export type Offer = { pattern: string; prices: Prices; source: string; notes: readonly string[] };

/** Sets the price of a model; null if it has this price from this source already. */
export function setPrice(
  price: Price | undefined,
  command: { pattern: string; prices: Prices; source: string; actor: string },
): EventOf<'model.priced'> | null {
  if (!MODEL_NAME.test(command.pattern)) {
    throw new DecisionError(
      'invalid',
      'A model name has 1 to 256 printable ASCII characters; * at its end stands for any rest.',
    );
  }
  // A * elsewhere is not a pattern, so the price would never apply.
  if (command.pattern.slice(0, -1).includes('*')) {
    throw new DecisionError('invalid', `"${command.pattern}" has a * that is not at its end.`);
  }
  if (price && samePrices(price.prices, command.prices) && price.source === command.source) return null;
  return {
    type: 'model.priced',
    model: command.pattern,
    prices: command.prices,
    source: command.source,
    actor: command.actor,
  };
}

/** The changes that an import makes. */
export type ImportPlan = {
  changes: { event: EventOf<'model.priced'>; version: number; before: Prices | null; offer: Offer }[];
  /** Manually set prices that differ and are kept. */
  kept: { offer: Offer; price: Price }[];
  unchanged: number;
};

/**
 * Compares offered prices with the current ones. Equal prices are unchanged, whatever their source; manually
 * set prices are kept unless `replaceManual` is set.
 */
export function planImport(
  inForce: (pattern: string) => Price | undefined,
  offers: readonly Offer[],
  command: { replaceManual: boolean; actor: string },
): ImportPlan {
  const plan: ImportPlan = { changes: [], kept: [], unchanged: 0 };
  for (const offer of offers) {
    const price = inForce(offer.pattern);
    if (price && samePrices(price.prices, offer.prices)) plan.unchanged += 1;
    else if (price?.source === MANUAL && !command.replaceManual) plan.kept.push({ offer, price });
    else {
      const { pattern, prices, source } = offer;
      const event = setPrice(price, { pattern, prices, source, actor: command.actor });
      if (event)
        plan.changes.push({
          event,
          version: (price?.version ?? 0) + 1,
          before: price?.prices ?? null,
          offer,
        });
    }
  }
  return plan;
}

function samePrices(a: Prices, b: Prices): boolean {
  return (
    a.input === b.input &&
    a.cached_input === b.cached_input &&
    a.output === b.output &&
    a.reasoning === b.reasoning
  );
}
