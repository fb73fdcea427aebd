import type { Pool, PoolClient } from 'pg';
import { type AccountKey, createAccountKey, openAccountKey } from '#db/attribution/keys.ts';
import { insertAccountKey, readAccountKeys, type StoredKey } from '#db/attribution/store.ts';
import { lockMasterKey } from '#db/secrets/credentials.ts';
import { UnknownMasterKeyError, type MasterKeys } from '#db/secrets/envelope.ts';
import { CACHED_KEYS_MAX, UNAVAILABLE_MS } from '#server/attribution/bounds.ts';
import { ConfigError } from '#server/process/config.ts';
import { keysToSeal, readKeys } from '#server/secrets/master-key.ts';

type Waiting = { promise: Promise<AccountKey | null>; resolve: (key: AccountKey | null) => void };

/**
 * The keys of attribution of accounts, opened. Each is read, or made, at the first call of its account; only
 * that account's calls wait for it.
 */
export class AccountKeys {
  readonly #pool: Pool;
  readonly #file: string;
  readonly #onUnavailable: (error: unknown) => void;
  readonly #keys = new Map<string, AccountKey>();
  readonly #waiting = new Map<string, Waiting>();
  /** Until when accounts are not asked for again. */
  readonly #unavailable = new Map<string, number>();
  #loading: Promise<void> | null = null;

  /**
   * @param file of the master key.
   * @param onUnavailable called with the reason for which an account's key could not be opened.
   */
  constructor(pool: Pool, file: string, onUnavailable: (error: unknown) => void) {
    this.#pool = pool;
    this.#file = file;
    this.#onUnavailable = onUnavailable;
  }

  /** The key of an account; null: it is not available at this time. Never throws. */
  get(account: string): AccountKey | null | Promise<AccountKey | null> {
    const key = this.#keys.get(account);
    if (key !== undefined) return key;
    const waiting = this.#waiting.get(account);
    if (waiting) return waiting.promise;
    const until = this.#unavailable.get(account);
    if (until !== undefined && performance.now() < until) return null;
    const added: Waiting = Promise.withResolvers<AccountKey | null>();
    this.#waiting.set(account, added);
    this.#loading ??= this.#load().finally(() => {
      this.#loading = null;
    });
    return added.promise;
  }

  forget(account: string): void {
    this.#keys.delete(account);
    this.#unavailable.delete(account);
  }

  /** Waits for the keys that are being read. */
  async close(): Promise<void> {
    await this.#loading;
  }

  async #load(): Promise<void> {
    while (this.#waiting.size > 0) {
      const accounts = [...this.#waiting.keys()];
      const found = await this.#loadAll(accounts);
      for (const account of accounts) {
        const key = found.get(account) ?? null;
        if (key === null) bounded(this.#unavailable, account, performance.now() + UNAVAILABLE_MS);
        else bounded(this.#keys, account, key);
        this.#waiting.get(account)?.resolve(key);
        this.#waiting.delete(account);
      }
    }
  }

  async #loadAll(accounts: readonly string[]): Promise<Map<string, AccountKey>> {
    const found = new Map<string, AccountKey>();
    try {
      const client = await this.#pool.connect();
      try {
        const stored = await readAccountKeys(client, accounts);
        const lacking = lackingOf(accounts, stored);
        const all = lacking.length === 0 ? stored : await this.#create(client, accounts);
        const keys = readKeys(this.#file);
        for (const each of all) {
          const key = 'sealed' in each ? this.#open(keys, each) : null;
          if (key !== null) found.set(key.account, key);
        }
      } finally {
        client.release();
      }
    } catch (error) {
      this.#onUnavailable(error);
    }
    return found;
  }

  #open(keys: MasterKeys | null, stored: Extract<StoredKey, { sealed: Buffer }>): AccountKey | null {
    try {
      return openAccountKey(keys ?? { current: '', all: new Map() }, stored);
    } catch (error) {
      this.#onUnavailable(
        error instanceof UnknownMasterKeyError
          ? new ConfigError(
              `the key of attribution is encrypted with the master key ${error.masterKey}, which is not in ` +
                'DAYBOOK_MASTER_KEY_FILE',
            )
          : new Error(`the row of account ${stored.account} in daybook.attribution_key was modified`),
      );
      return null;
    }
  }

  /** Makes the keys that are lacking. The first one creates the master key, as the first credential does. */
  async #create(client: PoolClient, accounts: readonly string[]): Promise<StoredKey[]> {
    await client.query('begin');
    try {
      await lockMasterKey(client);
      const masterKeys = await keysToSeal(client, this.#file);
      // Another process may have made them while this one waited.
      const stored = await readAccountKeys(client, accounts);
      for (const { account, destroyed } of lackingOf(accounts, stored))
        await insertAccountKey(client, createAccountKey(masterKeys, account, destroyed + 1));
      const all = await readAccountKeys(client, accounts);
      await client.query('commit');
      return all;
    } catch (error) {
      await client.query('rollback').catch(() => {});
      throw error;
    }
  }
}

/** Accounts without a key, with the number of the last that was destroyed, or 0. */
function lackingOf(
  accounts: readonly string[],
  stored: readonly StoredKey[],
): { account: string; destroyed: number }[] {
  const known = new Map(stored.map((each) => [each.account, each]));
  return accounts.flatMap((account) => {
    const key = known.get(account);
    if (key === undefined) return { account, destroyed: 0 };
    return 'destroyed' in key ? key : [];
  });
}

/** Sets an entry; the oldest of too many is removed. */
function bounded<V>(map: Map<string, V>, name: string, value: V): void {
  map.delete(name);
  map.set(name, value);
  if (map.size <= CACHED_KEYS_MAX) return;
  const [oldest] = map.keys();
  if (oldest !== undefined) map.delete(oldest);
}
