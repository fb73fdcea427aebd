import { MODEL_NAME } from '#db/events/parts.ts';
import { type EventOf } from '#db/events/events.ts';
import type { Price } from '#db/fold/price.ts';
import { type Conditions, type PriceTerms, RATE_PARTS, type Rate } from '#db/pricing/parts.ts';
import { DecisionError } from '#server/decide/decision.ts';

/** The source of a manually set price. */
export const MANUAL = 'manual';

/** A price that can be imported, with notes about it. */
export type Offer = { pattern: string; terms: PriceTerms; source: string; notes: readonly string[] };

/**
 * Sets the price of a model; null if it has this price from this source already.
 * @param command.plan whose accounts are charged this; null: it is what the provider charges.
 */
export function setPrice(
  price: Price | undefined,
  command: { pattern: string; plan: string | null; terms: PriceTerms; source: string; actor: string },
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
  const { pattern, plan, source, actor } = command;
  checkTerms(pattern, command.terms);
  if (price && sameTerms(price.terms, command.terms) && price.source === source) return null;
  const { base, rules } = canonical(command.terms);
  return {
    type: 'model.priced',
    model: pattern,
    ...(plan === null ? {} : { plan }),
    base,
    ...(rules === undefined ? {} : { rules }),
    source,
    actor,
  };
}

/** The changes that an import makes. */
export type ImportPlan = {
  changes: { event: EventOf<'model.priced'>; version: number; before: PriceTerms | null; offer: Offer }[];
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
    if (price && sameTerms(price.terms, offer.terms)) plan.unchanged += 1;
    else if (price?.source === MANUAL && !command.replaceManual) plan.kept.push({ offer, price });
    else {
      const { pattern, terms, source } = offer;
      const event = setPrice(price, { pattern, plan: null, terms, source, actor: command.actor });
      if (event)
        plan.changes.push({
          event,
          version: (price?.version ?? 0) + 1,
          before: price?.terms ?? null,
          offer,
        });
    }
  }
  return plan;
}

/** Whether two prices are the same, whatever the order of their fields. */
export function sameTerms(one: PriceTerms, other: PriceTerms): boolean {
  return JSON.stringify(canonical(one)) === JSON.stringify(canonical(other));
}

/** A price with its fields in one order, and without those that are absent. */
function canonical({ base, rules }: PriceTerms): EventPrice {
  return rules === undefined || rules.length === 0
    ? { base: rateOf(base) }
    : {
        base: rateOf(base),
        rules: rules.map(({ when, rate }) => ({ when: whenOf(when), rate: rateOf(rate) })),
      };
}

type EventPrice = Pick<EventOf<'model.priced'>, 'base' | 'rules'>;

function rateOf(rate: Rate): EventPrice['base'] {
  return Object.fromEntries(
    RATE_PARTS.map((part) => [part, rate[part]] as const).filter(([, price]) => price !== undefined),
  );
}

const CONDITIONS = [
  'service_tier',
  'input_tokens_above',
  'valid_from',
  'valid_to',
  'hours',
  'upstream',
] as const satisfies readonly (keyof Conditions)[];

function whenOf(when: Conditions): Conditions {
  const { hours } = when;
  return Object.fromEntries(
    CONDITIONS.map(
      (name) => [name, name === 'hours' && hours ? { from: hours.from, to: hours.to } : when[name]] as const,
    ).filter(([, value]) => value !== undefined),
  );
}

/** @throws {DecisionError} for a rule that can never apply. */
function checkTerms(pattern: string, { rules = [] }: PriceTerms): void {
  for (const [index, { when }] of rules.entries()) {
    const { valid_from: from, valid_to: to } = when;
    if (from !== undefined && to !== undefined && Date.parse(from) >= Date.parse(to))
      throw new DecisionError(
        'invalid',
        `Rule ${index + 1} of the price of "${pattern}" never applies: it is valid from ${from} to ${to}.`,
      );
  }
}
