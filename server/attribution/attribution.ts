import type { ClientConfig, Pool } from 'pg';
import { type AccountKey, type Named, pseudonymOf } from '#db/attribution/keys.ts';
import type { AttributionKind } from '#db/attribution/value.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { type AttributionEvent, isAttributionEvent } from '#db/events/subjects.ts';
import { type Read, UnreadableEventError } from '#db/log/read.ts';
import { openPool } from '#db/postgres/connect.ts';
import { AccountKeys } from '#server/attribution/account-keys.ts';
import {
  CACHED_VALUES_MAX,
  READABLE_PER_DAY_MAX,
  REPORT_MS,
  STORE_CONNECTIONS_MAX,
  STORE_IDLE_MS,
} from '#server/attribution/bounds.ts';
import { PseudonymCache } from '#server/attribution/pseudonym-cache.ts';
import type { AttributionValues } from '#server/attribution/read-attribution.ts';
import { ValueWriter } from '#server/attribution/value-writer.ts';
import { ConfigError } from '#server/process/config.ts';

/** Who a call is for, as the fields of its events: pseudonyms. */
export type CallAttribution = { end_user?: string; session?: string; tags?: string[] };

export const UNATTRIBUTED: Readonly<CallAttribution> = Object.freeze({});

/** Calls and values that this process could not attribute or store, since its start. */
export type AttributionCounts = {
  /** Values of clients that can't be used; see {@link AttributionValues}. */
  unusable: number;
  /** Calls with values that were recorded without, because their account's key was not available. */
  unattributed: number;
  /** Readable values that were not stored: the account has too many new ones, or the queue is full. */
  unstored: number;
};

const DAY_MS = 86_400_000;

/**
 * Turns the end users, sessions and tags of calls into pseudonyms, and stores the readable values. A call
 * whose values are known costs a look-up for each of them.
 */
export class Attribution {
  readonly #pool: Pool;
  readonly #keys: AccountKeys;
  readonly #writer: ValueWriter;
  readonly #cache = new PseudonymCache(CACHED_VALUES_MAX);
  readonly #nowMs: () => number;
  readonly #log: Logger;
  readonly counts: AttributionCounts = { unusable: 0, unattributed: 0, unstored: 0 };
  #reported: AttributionCounts = { unusable: 0, unattributed: 0, unstored: 0 };
  readonly #timer: NodeJS.Timeout;
  /** The reason that was logged last for a key that is not available. */
  #logged = '';
  #day = 0;
  /** The readable values that were stored on this day, by account. */
  #storedOf = new Map<string, number>();

  /**
   * @param config of the relay's role.
   * @param file of the master key.
   * @param nowMs Postgres' time, in milliseconds since 1970.
   */
  constructor(config: ClientConfig, file: string, nowMs: () => number, log: Logger) {
    this.#pool = openPool({ ...config, max: STORE_CONNECTIONS_MAX, idleTimeoutMillis: STORE_IDLE_MS });
    this.#keys = new AccountKeys(this.#pool, file, (error) => this.#noteUnavailable(error));
    this.#writer = new ValueWriter(this.#pool, (error) =>
      log.warn(errorFields(error), 'storing attribution values failed; retrying'),
    );
    this.#nowMs = nowMs;
    this.#log = log;
    this.#timer = setInterval(() => this.#report(), REPORT_MS).unref();
  }

  /**
   * The pseudonyms of a call's values: at once where the account's key is known, which all its calls but the
   * first find.
   * @returns null where the key is not available; the call can't be attributed.
   */
  resolve(
    account: string,
    values: AttributionValues,
  ): Readonly<CallAttribution> | null | Promise<Readonly<CallAttribution> | null> {
    this.counts.unusable += values.unusable;
    if (values.endUser === null && values.session === null && values.tags.length === 0) return UNATTRIBUTED;
    const key = this.#keys.get(account);
    return key instanceof Promise
      ? key.then((loaded) => this.#attribute(loaded, values))
      : this.#attribute(key, values);
  }

  /** The key of an account, which also seals the replies kept for it; null: it is not available. */
  keyOf(account: string): AccountKey | null | Promise<AccountKey | null> {
    return this.#keys.get(account);
  }

  /** Forgets the values that were erased by the next events of the log. */
  apply(rows: readonly Read[]): void {
    for (const row of rows)
      if (!(row instanceof UnreadableEventError) && isAttributionEvent(row.event)) this.#erased(row.event);
  }

  /** They can't be stored again: the database refuses them. */
  #erased(event: AttributionEvent): void {
    const { account } = event;
    if (event.type === 'attribution.key_destroyed') {
      this.#keys.forget(account);
      this.#cache.forgetAccount(account);
      this.#writer.forget(account);
    } else {
      this.#cache.forget(account, event);
      this.#writer.forget(account, event);
    }
  }

  /** Stores the values that wait. For tests and the end of a process. */
  flush(): Promise<void> {
    return this.#writer.flush();
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#keys.close();
    await this.#writer.close();
    this.#report();
    await this.#pool.end();
  }

  #attribute(key: AccountKey | null, { endUser, session, tags }: AttributionValues): CallAttribution | null {
    if (key === null) {
      this.counts.unattributed++;
      return null;
    }
    const attribution: CallAttribution = {};
    if (endUser !== null) attribution.end_user = this.#pseudonym(key, 'end_user', endUser);
    if (session !== null) attribution.session = this.#pseudonym(key, 'session', session);
    if (tags.length > 0) attribution.tags = tags.map((tag) => this.#pseudonym(key, 'tag', tag));
    return attribution;
  }

  #pseudonym(key: AccountKey, kind: AttributionKind, value: string): string {
    const known = this.#cache.get(key.account, kind, value);
    if (known !== undefined) return known;
    const pseudonym = pseudonymOf(key, kind, value);
    // One that found no room in the queue is queued by the next call.
    if (this.#store(key, { kind, pseudonym }, value)) this.#cache.set(key.account, kind, value, pseudonym);
    return pseudonym;
  }

  /** @returns whether the value is done with: it waits to be stored, or the account has too many. */
  #store(key: AccountKey, named: Named, value: string): boolean {
    this.#startDay();
    const stored = this.#storedOf.get(key.account) ?? 0;
    const isFull = stored >= READABLE_PER_DAY_MAX;
    const isStored = !isFull && this.#writer.add(key, named, value);
    if (isStored) this.#storedOf.set(key.account, stored + 1);
    else this.counts.unstored++;
    return isStored || isFull;
  }

  /** Values that are in use are stored again each day, in case they were deleted by their age. */
  #startDay(): void {
    const day = Math.floor(this.#nowMs() / DAY_MS);
    if (day === this.#day) return;
    this.#day = day;
    this.#storedOf = new Map();
    this.#cache.age();
  }

  #noteUnavailable(error: unknown): void {
    const reason = error instanceof Error ? error.message : '';
    if (reason === this.#logged) return;
    this.#logged = reason;
    const fields = error instanceof ConfigError ? { reason } : errorFields(error);
    this.#log.error(fields, 'key of attribution not available; calls are recorded without attribution');
  }

  /** Counts without names: what clients send is not for log lines. */
  #report(): void {
    const { unusable, unattributed, unstored } = this.counts;
    const before = this.#reported;
    // A reason that lasts is logged again.
    this.#logged = '';
    this.#reported = { unusable, unattributed, unstored };
    const since = {
      unusable: unusable - before.unusable,
      unattributed: unattributed - before.unattributed,
      unstored: unstored - before.unstored,
    };
    if (since.unattributed + since.unstored > 0) this.#log.warn(since, 'attribution incomplete');
    else if (since.unusable > 0) this.#log.info(since, 'attribution values of clients not usable');
  }
}
