import type { ControlEvent, Placed } from '#db/events.ts';
import { type Account, evolveAccount } from '#db/fold/account.ts';
import { evolveKey, type Key } from '#db/fold/key.ts';
import { READ_MODEL_STALE_MS } from '#server/bounds.ts';
import { PriceTable } from '#server/prices.ts';

/**
 * Accounts and keys in memory, folded from the log by following it. The hot path reads only this;
 * it never asks the database. It is only as good as it is current: {@link ReadModel.isCurrent}.
 */
export class ReadModel {
  readonly prices = new PriceTable();
  readonly #accounts = new Map<string, Account>();
  readonly #keys = new Map<string, Key>();
  #currentAtMs = Number.NEGATIVE_INFINITY;
  #position = 0;
  /** Postgres' clock minus this process's monotonic clock. */
  #clockOffsetMs = Date.now() - performance.now();

  /** Takes in the next events of the log, in order. */
  apply(events: readonly Placed[]): void {
    for (const { event, at, position } of events) {
      this.#position = position;
      if ('actor' in event) this.#applyControl(event, at);
    }
  }

  #applyControl(event: ControlEvent, at: Date): void {
    if (event.type === 'model.priced') this.prices.apply(event);
    else if ('key' in event) {
      const key = evolveKey(this.#keys.get(event.key), event, at);
      if (key) this.#keys.set(key.id, key);
    } else {
      const account = evolveAccount(this.#accounts.get(event.account), event);
      if (account) this.#accounts.set(account.id, account);
    }
  }

  /** Notes that the log was just read to its head. */
  markCurrent(): void {
    this.#currentAtMs = performance.now();
  }

  /** Whether revocations and suspensions of more than a few seconds ago are known here. */
  isCurrent(): boolean {
    return performance.now() - this.#currentAtMs < READ_MODEL_STALE_MS;
  }

  /** Sets the clock by Postgres', which decides expiry whatever this machine's clock says. */
  setClock(postgresNow: Date): void {
    this.#clockOffsetMs = postgresNow.getTime() - performance.now();
  }

  /** Now, by Postgres' clock, in milliseconds since 1970. */
  nowMs(): number {
    return performance.now() + this.#clockOffsetMs;
  }

  account(id: string): Account | undefined {
    return this.#accounts.get(id);
  }

  /** Names are unique. A walk: only commands of people name accounts. */
  accountNamed(name: string): Account | undefined {
    return this.#accounts.values().find((account) => account.name === name);
  }

  key(id: string): Key | undefined {
    return this.#keys.get(id);
  }

  get keys(): Iterable<Key> {
    return this.#keys.values();
  }

  /** The position of the last event taken in. */
  get position(): number {
    return this.#position;
  }

  get size(): { accounts: number; keys: number } {
    return { accounts: this.#accounts.size, keys: this.#keys.size };
  }
}
