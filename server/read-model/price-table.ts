import type { EventOf } from '#db/events/events.ts';
import { evolvePrice, type Price } from '#db/fold/price.ts';
import type { Stored } from '#db/fold/stored.ts';
import { PRICES_FOUND_MAX } from '#server/read-model/bounds.ts';

/**
 * The prices of models, folded from the log. An exact name takes precedence over prefixes (`gpt-4o*`), and
 * the longest prefix over shorter ones. Names are case-insensitive, since price lists have `llama` for the
 * provider's `Llama`; of two patterns that differ only in case, the one set last counts.
 */
export class PriceTable {
  readonly #streams = new Map<string, Price>();
  readonly #exact = new Map<string, Price>();
  readonly #prefixes = new Map<string, Price>();
  /** A cache of lookups by name; clients choose the names, so it is bounded. */
  readonly #found = new Map<string, Price | undefined>();

  /** Applies the next price of the log. */
  apply(stored: Stored<EventOf<'model.priced'>>): void {
    const price = evolvePrice(stored);
    this.#streams.set(price.pattern, price);
    const name = price.pattern.toLowerCase();
    if (name.endsWith('*')) this.#prefixes.set(name.slice(0, -1), price);
    else this.#exact.set(name, price);
    this.#found.clear();
  }

  /** The price of a model; the same object until it changes. Undefined: no price set. */
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

  /** The price set for exactly this name or pattern. */
  get(pattern: string): Price | undefined {
    return this.#streams.get(pattern);
  }

  /** All prices, by name. */
  get all(): Price[] {
    return [...this.#streams.values()].toSorted((a, b) => (a.pattern < b.pattern ? -1 : 1));
  }
}
