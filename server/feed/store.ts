import { type Client, DatabaseError } from 'pg';
import { closeClient, type Store } from '#db/postgres/connect.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { FEED_IDLE_MS, FEED_QUERIES_MAX } from '#server/feed/bounds.ts';

/** As many questions of the feed wait for the store as may. */
export class FeedBusyError extends Error {
  override name = 'FeedBusyError';
}

/**
 * The feed's own connection to the store, for what viewers missed and for telling other processes.
 * It is made when it is needed, and closed when it was not for a while. One question is asked after
 * the other; when the connection breaks, those who wait are told so at once, and the next makes a
 * new one.
 */
export class FeedStore {
  readonly #store: Store;
  #client: Client | null = null;
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  /** How often the connection has broken, and why it last did. */
  #breaks = 0;
  #reason: unknown;
  #idle: NodeJS.Timeout | undefined;

  constructor(store: Store) {
    this.#store = store;
  }

  /** @throws {Error} what the store says, or that it is away, or {@link FeedBusyError}. */
  run<T>(work: (client: Client) => Promise<T>): Promise<T> {
    if (this.#waiting >= FEED_QUERIES_MAX)
      return Promise.reject(new FeedBusyError('too many questions wait for the store'));
    this.#waiting++;
    clearTimeout(this.#idle);
    const answer = this.#answerAfter(this.#last, this.#breaks, work);
    this.#last = answer.catch(() => undefined);
    return answer;
  }

  /** Says something to all who listen on a channel; each payload is below Postgres' 8,000 bytes. */
  async notify(channel: string, payloads: readonly string[]): Promise<void> {
    if (payloads.length === 0) return;
    await this.run((client) =>
      client.query('select pg_notify($1, payload) from unnest($2::text[]) payload', [channel, payloads]),
    );
  }

  /** Answers what was asked before, and closes the connection. */
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
