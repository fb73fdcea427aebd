import { WATCH_EXPIRES_MS, WATCHED_MAX } from '#server/feed/bounds.ts';
import { packed } from '#server/feed/notify-payloads.ts';

/** Where processes tell one another what they watch. */
export const WATCHED_CHANNEL = 'daybook_watched';

/**
 * Whose running calls somebody looks at. Each process knows what its own viewers watch, and tells
 * the others every few seconds; what was not told again expires, so that a process that died is
 * not talked to for long.
 */
export class Watch {
  /** What this process calls itself, to know its own words again. */
  readonly name: string;
  readonly #here = new Map<string | null, number>();
  /** Until when, by the monotonic clock. Null: all accounts. */
  readonly #elsewhere = new Map<string | null, number>();

  /** Called when something is watched that may not have been before. */
  onWatched: () => void = () => {};

  constructor(name: string) {
    this.name = name;
  }

  /** @returns whether nobody watched that account here before. */
  add(account: string | null): boolean {
    const count = this.#here.get(account) ?? 0;
    this.#here.set(account, count + 1);
    this.onWatched();
    return count === 0;
  }

  delete(account: string | null): void {
    const count = this.#here.get(account) ?? 0;
    if (count > 1) this.#here.set(account, count - 1);
    else this.#here.delete(account);
  }

  /** Whether anybody watches anything; forgets who has not said so for too long. */
  get isWatched(): boolean {
    this.#expire();
    return this.#here.size > 0 || this.#elsewhere.size > 0;
  }

  isWatchedHere(account: string): boolean {
    return this.#here.has(account) || this.#here.has(null);
  }

  isWatchedElsewhere(account: string): boolean {
    return this.#elsewhere.has(account) || this.#elsewhere.has(null);
  }

  /** What is watched here; null: all accounts. */
  get accountsHere(): string[] | null {
    return this.#here.has(null) ? null : [...this.#here.keys()].filter((account) => account !== null);
  }

  /** What is told to the others. */
  payloads(accounts: Iterable<string | null> = this.#here.keys()): string[] {
    const lines = [...accounts].map((account) => JSON.stringify(account));
    return packed(lines).map((part) => `{"by":"${this.name}","accounts":[${part}]}`);
  }

  /** Another process, or this one, has told what it watches. */
  heard(payload: string): void {
    const expiresMs = performance.now() + WATCH_EXPIRES_MS;
    for (const account of this.#read(payload)) {
      if (this.#elsewhere.size >= WATCHED_MAX && !this.#elsewhere.has(account)) this.#expire();
      if (this.#elsewhere.size < WATCHED_MAX || this.#elsewhere.has(account))
        this.#elsewhere.set(account, expiresMs);
    }
    this.onWatched();
  }

  #read(payload: string): (string | null)[] {
    try {
      const { by, accounts } = JSON.parse(payload) as { by: string; accounts: (string | null)[] };
      return by === this.name || !Array.isArray(accounts) ? [] : accounts;
    } catch {
      return [];
    }
  }

  #expire(): void {
    const nowMs = performance.now();
    for (const [account, untilMs] of this.#elsewhere) if (untilMs <= nowMs) this.#elsewhere.delete(account);
  }
}
