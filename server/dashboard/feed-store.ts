import { type Client, DatabaseError } from 'pg';
import { closeClient, type Store } from '#db/connect.ts';
import { FEED_IDLE_MS, FEED_QUERIES_MAX } from '#server/bounds.ts';
import { connectRelay } from '#server/store.ts';

/** As many questions of the feed wait for the store as may. */
export class FeedBusyError extends Error {
  override name = 'FeedBusyError';
}

/**
 * The feed's own connection to the store, for what viewers missed and for telling other processes.
 * It is made when it is needed, and closed when it was not for a while; a broken one is made anew.
 */
export class FeedStore {
  readonly #store: Store;
  #client: Promise<Client> | null = null;
  #underWay = 0;
  #idle: NodeJS.Timeout | undefined;

  constructor(store: Store) {
    this.#store = store;
  }

  /** @throws {Error} what the store says, or that it is away, or {@link FeedBusyError}. */
  async ask<T>(work: (client: Client) => Promise<T>): Promise<T> {
    if (this.#underWay >= FEED_QUERIES_MAX) throw new FeedBusyError('too many questions wait for the store');
    this.#underWay++;
    clearTimeout(this.#idle);
    const connecting = (this.#client ??= connectRelay(this.#store));
    try {
      return await work(await connecting);
    } catch (error) {
      if (!(error instanceof DatabaseError) && this.#client === connecting) void this.#drop();
      throw error;
    } finally {
      this.#underWay--;
      if (this.#underWay === 0) this.#idle = setTimeout(() => void this.#drop(), FEED_IDLE_MS).unref();
    }
  }

  /** Says something to all who listen on a channel; each payload is below Postgres' 8,000 bytes. */
  async say(channel: string, payloads: readonly string[]): Promise<void> {
    if (payloads.length === 0) return;
    await this.ask((client) => client.query('select pg_notify($1, payload) from unnest($2::text[]) payload', [channel, payloads]));
  }

  async close(): Promise<void> {
    clearTimeout(this.#idle);
    await this.#drop();
  }

  #drop(): Promise<void> {
    const client = this.#client;
    this.#client = null;
    return client === null ? Promise.resolve() : client.then(closeClient, () => undefined);
  }
}
