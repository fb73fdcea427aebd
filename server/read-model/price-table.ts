import type { EventOf } from '#db/events/events.ts';
import { evolvePrice, type Price } from '#db/fold/price.ts';
import type { Stored } from '#db/fold/stored.ts';
import { type Schedule, scheduleOf } from '#db/pricing/schedule.ts';
import { PRICES_FOUND_MAX } from '#server/read-model/bounds.ts';
import { DEMO_MODELS } from '#server/upstreams/demo-models.ts';

/** A price with its compiled rates. */
export type CompiledPrice = Price & { schedule: Schedule };

/**
 * The prices of models, folded from the log. An exact name takes precedence over prefixes (`gpt-4o*`), and
 * the longest prefix over shorter ones. Names are case-insensitive, since price lists have `llama` for the
 * provider's `Llama`; of two patterns that differ only in case, the one set last counts.
 */
export class PriceTable {
  readonly #costs = new PatternTable(BUILT_IN);
  readonly #ofPlans = new Map<string, PatternTable>();

  /** Applies the next price of the log. */
  apply(stored: Stored<EventOf<'model.priced'>>): void {
    const price = evolvePrice(stored);
    let table = price.plan === null ? this.#costs : this.#ofPlans.get(price.plan);
    if (!table) this.#ofPlans.set(price.plan as string, (table = new PatternTable([])));
    table.set({ ...price, schedule: scheduleOf(price.terms) });
  }

  /**
   * What calls of a model cost; the same object until it changes. Undefined: no price set. The built-in demo
   * costs nothing unless it has a price.
   */
  find(model: string): CompiledPrice | undefined {
    return this.#costs.find(model);
  }

  /** What the accounts of a plan are charged instead, if the plan has a price for the model. */
  findOfPlan(plan: string, model: string): CompiledPrice | undefined {
    return this.#ofPlans.get(plan)?.find(model);
  }

  /** The price set for exactly this name or pattern. */
  get(pattern: string, plan: string | null = null): CompiledPrice | undefined {
    return (plan === null ? this.#costs : this.#ofPlans.get(plan))?.get(pattern);
  }

  /** All prices that were set: those of the providers by name, then those of each plan. */
  get all(): CompiledPrice[] {
    const plans = [...this.#ofPlans].toSorted(([one], [other]) => (one < other ? -1 : 1));
    return [this.#costs, ...plans.map(([, table]) => table)].flatMap((table) => table.all);
  }
}

/** Prices by the patterns of model names. */
class PatternTable {
  readonly #builtIn: ReadonlyMap<string, CompiledPrice>;
  readonly #streams = new Map<string, CompiledPrice>();
  readonly #exact = new Map<string, CompiledPrice>();
  readonly #prefixes = new Map<string, CompiledPrice>();
  /** A cache of lookups by name; clients choose the names, so it is bounded. */
  readonly #found = new Map<string, CompiledPrice | undefined>();

  constructor(builtIn: readonly CompiledPrice[]) {
    this.#builtIn = new Map(builtIn.map((price) => [price.pattern, price]));
  }

  set(price: CompiledPrice): void {
    this.#streams.set(price.pattern, price);
    const name = price.pattern.toLowerCase();
    if (name.endsWith('*')) this.#prefixes.set(name.slice(0, -1), price);
    else this.#exact.set(name, price);
    this.#found.clear();
  }

  find(model: string): CompiledPrice | undefined {
    const known = this.#found.get(model);
    if (known !== undefined || this.#found.has(model)) return known;
    const name = model.toLowerCase();
    const price = this.#search(name) ?? this.#builtIn.get(name);
    if (this.#found.size >= PRICES_FOUND_MAX) this.#found.clear();
    this.#found.set(model, price);
    return price;
  }

  #search(name: string): CompiledPrice | undefined {
    const exact = this.#exact.get(name);
    if (exact || this.#prefixes.size === 0) return exact;
    for (let length = name.length; length >= 0; length--) {
      const price = this.#prefixes.get(name.slice(0, length));
      if (price) return price;
    }
    return undefined;
  }

  get(pattern: string): CompiledPrice | undefined {
    return this.#streams.get(pattern);
  }

  get all(): CompiledPrice[] {
    return [...this.#streams.values()].toSorted((a, b) => (a.pattern < b.pattern ? -1 : 1));
  }
}

const FREE = { base: { input: 0, output: 0 } };
/** Prices of version 0, where none is set. */
const BUILT_IN: readonly CompiledPrice[] = DEMO_MODELS.map((pattern) => ({
  pattern,
  plan: null,
  terms: FREE,
  source: 'built-in',
  version: 0,
  schedule: scheduleOf(FREE),
}));
