import type { EventOf } from '#db/events/events.ts';
import { evolvePrice, type Price } from '#db/fold/price.ts';
import type { Stored } from '#db/fold/stored.ts';
import { PRICES_FOUND_MAX } from '#server/read-model/bounds.ts';

/**
 * What each model costs, folded from the log. A price by the model's full name goes before any by
 * its beginning (`gpt-4o*`), and of those the longest decides. Letter case makes no difference:
 * price lists write `llama` where providers call the model `Llama`; of two prices that differ in
 * nothing else the one set last counts.
 */
export class PriceTable {
  readonly #streams = new Map<string, Price>();
  readonly #exact = new Map<string, Price>();
  readonly #prefixes = new Map<string, Price>();
  /** What was found for names that were asked for; clients choose names, so it is bounded. */
  readonly #found = new Map<string, Price | undefined>();

  /** Takes in the next price of the log. */
  apply(stored: Stored<EventOf<'model.priced'>>): void {
    const price = evolvePrice(stored);
    this.#streams.set(price.pattern, price);
    const name = price.pattern.toLowerCase();
    if (name.endsWith('*')) this.#prefixes.set(name.slice(0, -1), price);
    else this.#exact.set(name, price);
    this.#found.clear();
  }

  /** What calls of a model cost; the same object until it changes. Undefined: nothing is known. */
  find(model: string): Price | undefined {
    const known = this.#found.get(model);
    if (known !== undefined || this.#found.has(model)) return known;
    const price = this.#search(model.toLowerCase());
    if (this.#found.size >= PRICES_FOUND_MAX) this.#found.clear();
    this.#found.set(model, price);
    return price;
  }

  #search(name: string): Price | undefined {
    const exact = this.#exact.get(name);
    if (exact || this.#prefixes.size === 0) return exact;
    for (let length = name.length; length >= 0; length--) {
      const price = this.#prefixes.get(name.slice(0, length));
      if (price) return price;
    }
    return undefined;
  }

  /** The price that was set for just this name or pattern. */
  get(pattern: string): Price | undefined {
    return this.#streams.get(pattern);
  }

  /** All prices, by name. */
  get all(): Price[] {
    return [...this.#streams.values()].toSorted((a, b) => (a.pattern < b.pattern ? -1 : 1));
  }
}
