import { WATCH_EXPIRES_MS, WATCHED_MAX } from '#server/feed/bounds.ts';
import { packed } from '#server/feed/notify-payloads.ts';

/** The channel on which processes announce the accounts that they watch. */
export const WATCHED_CHANNEL = 'daybook_watched';

/**
 * The accounts whose running calls are watched. Each process announces those of its viewers every few
 * seconds; an announcement that isn't repeated expires, so that a dead process isn't notified for long.
 */
export class Watch {
  /** The name of this process, to recognize its own announcements. */
  readonly name: string;
  readonly #here = new Map<string | null, number>();
  /** Expiry, by the monotonic clock. Null: all accounts. */
  readonly #elsewhere = new Map<string | null, number>();

  /** Called when an account may be newly watched. */
  onWatched: () => void = () => {};

  constructor(name: string) {
    this.name = name;
  }

  /** @returns whether the account wasn't watched here before. */
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

  /** Whether any account is watched; removes expired announcements. */
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

  /** The accounts watched here; null: all. */
  get accountsHere(): string[] | null {
    return this.#here.has(null) ? null : [...this.#here.keys()].filter((account) => account !== null);
  }

  /** The payloads of an announcement. */
  payloads(accounts: Iterable<string | null> = this.#here.keys()): string[] {
    const lines = [...accounts].map((account) => JSON.stringify(account));
    return packed(lines).map((part) => `{"by":"${this.name}","accounts":[${part}]}`);
  }

  /** Receives an announcement of this or another process. */
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
