import { type Client, DatabaseError } from 'pg';
import { closeClient, type Store } from '#db/postgres/connect.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { FEED_IDLE_MS, FEED_QUERIES_MAX } from '#server/feed/bounds.ts';

/** The queue of the feed's queries is full. */
export class FeedBusyError extends Error {
  override name = 'FeedBusyError';
}

/**
 * The feed's own connection to the store, for catching up and notifications. Opened on demand and closed when
 * idle. Queries are serialized; when the connection breaks, queued ones fail at once, and the next opens a
 * new one.
 */
export class FeedStore {
  readonly #store: Store;
  #client: Client | null = null;
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  /** Number of lost connections, and the last reason. */
  #breaks = 0;
  #reason: unknown;
  #idle: NodeJS.Timeout | undefined;

  constructor(store: Store) {
    this.#store = store;
  }

  /** @throws {Error} the query's error, a connection error, or {@link FeedBusyError}. */
  run<T>(work: (client: Client) => Promise<T>): Promise<T> {
    if (this.#waiting >= FEED_QUERIES_MAX)
      return Promise.reject(new FeedBusyError('too many questions wait for the store'));
    this.#waiting++;
    clearTimeout(this.#idle);
    const answer = this.#answerAfter(this.#last, this.#breaks, work);
    this.#last = answer.catch(() => undefined);
    return answer;
  }

  /** Notifies all listeners of a channel; each payload is below Postgres' limit of 8,000 bytes. */
  async notify(channel: string, payloads: readonly string[]): Promise<void> {
    if (payloads.length === 0) return;
    await this.run((client) =>
      client.query('select pg_notify($1, payload) from unnest($2::text[]) payload', [channel, payloads]),
    );
  }

  /** Finishes queued queries and closes the connection. */
  async close(): Promise<void> {
    await this.#last;
    clearTimeout(this.#idle);
    await this.#drop();
  }

  async #answerAfter<T>(
    last: Promise<unknown>,
    breaks: number,
    work: (client: Client) => Promise<T>,
  ): Promise<T> {
    await last;
    try {
      if (breaks !== this.#breaks) throw this.#reason;
      return await this.#answer(work);
    } finally {
      this.#waiting--;
      if (this.#waiting === 0) this.#idle = setTimeout(() => void this.#drop(), FEED_IDLE_MS).unref();
    }
  }

  async #answer<T>(work: (client: Client) => Promise<T>): Promise<T> {
    try {
      return await work((this.#client ??= await connectRelay(this.#store)));
    } catch (error) {
      if (!(error instanceof DatabaseError)) {
        this.#breaks++;
        this.#reason = error;
        void this.#drop();
      }
      throw error;
    }
  }

  async #drop(): Promise<void> {
    const client = this.#client;
    this.#client = null;
    if (client) await closeClient(client);
  }
}
