import type { Named } from '#db/attribution/keys.ts';
import { ATTRIBUTION_KINDS, type AttributionKind } from '#db/attribution/value.ts';

/**
 * The pseudonyms of recently used values, bounded. Two generations instead of an order of use: a hit in the
 * older one moves to the newer, and a full newer one replaces the older. Pure.
 */
export class PseudonymCache {
  readonly #max: number;
  #newer = new Map<string, string>();
  #older = new Map<string, string>();

  /** @param max of values; at least half as many of the latest are remembered. */
  constructor(max: number) {
    this.#max = Math.max(1, Math.floor(max / 2));
  }

  get(account: string, kind: AttributionKind, value: string): string | undefined {
    const name = nameOf(account, kind, value);
    const found = this.#newer.get(name);
    if (found !== undefined) return found;
    const old = this.#older.get(name);
    if (old !== undefined) this.#put(name, old);
    return old;
  }

  set(account: string, kind: AttributionKind, value: string, pseudonym: string): void {
    this.#put(nameOf(account, kind, value), pseudonym);
  }

  /** Starts the next generation. Values that are not used until the one after are forgotten. */
  age(): void {
    this.#older = this.#newer;
    this.#newer = new Map();
  }

  /** Forgets the value behind a pseudonym. Looks at all values, which is rare. */
  forget(account: string, { kind, pseudonym }: Named): void {
    const beginning = nameOf(account, kind, '');
    this.#deleteWhere((name, found) => found === pseudonym && name.startsWith(beginning));
  }

  /** Forgets the values of an account. Looks at all values, which is rare. */
  forgetAccount(account: string): void {
    this.#deleteWhere((name) => name.startsWith(account));
  }

  get size(): number {
    return this.#newer.size + this.#older.size;
  }

  #put(name: string, pseudonym: string): void {
    if (this.#newer.size >= this.#max) this.age();
    this.#newer.set(name, pseudonym);
  }

  #deleteWhere(isMeant: (name: string, pseudonym: string) => boolean): void {
    for (const values of [this.#newer, this.#older])
      for (const [name, pseudonym] of values) if (isMeant(name, pseudonym)) values.delete(name);
  }
}

/** Accounts' ids all have the same length. */
const nameOf = (account: string, kind: AttributionKind, value: string): string =>
  account + ATTRIBUTION_KINDS[kind] + value;
