import type { Client } from 'pg';
import { closeClient, connectAs, type Store } from '#db/postgres/connect.ts';
import type { LOG_READINGS } from '#db/events/log-events.ts';
import { explainAppendError, OccupiedPositionError } from '#db/log/occupied-position.ts';
import { readHead } from '#db/log/read.ts';
import type { Caller } from '#server/sign-in/signed-in.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { isStoreFault } from '#server/errors/store-fault.ts';

/** Connections of a process for audits: a few people, and one long check. */
const CONNECTIONS_MAX = 4;
/** Interval between records that a session reads the list of events. */
const LISTING_NOTED_EVERY_MS = 3_600_000;
/**
 * Sessions for which that is remembered: more than read within an hour. For one that is forgotten the read is
 * recorded
 */
const LISTINGS_NOTED_MAX = 1_000;

export type Reading = {
  what: (typeof LOG_READINGS)[number];
  /** The positions that were asked for. */ from: number;
  to: number;
};

const UNAVAILABLE = new ApiError('store_unavailable', {
  message: 'The event log is temporarily unavailable for audits. Try again.',
});
const CROWDED = new ApiError('relay_overloaded', {
  message: 'Too many audits are running on this server. Try again.',
});

/**
 * Connections for audits of the log. Their role can only read the log and record that it was read; a read
 * that can't be recorded isn't made.
 */
export class AuditReader {
  readonly #store: Store;
  readonly #open = new Set<Promise<unknown>>();
  /** The last record per session, by the monotonic clock. */
  readonly #listed = new Map<string, number>();

  constructor(store: Store) {
    this.#store = store;
  }

  /**
   * Runs something over a connection of its own, which ends with it.
   * @param timeoutMs the patience with one statement.
   * @returns a refusal where the store is away or too many are at it.
   */
  async use<T>(work: (client: Client) => Promise<T>, timeoutMs?: number): Promise<T | ApiError> {
    if (this.#open.size >= CONNECTIONS_MAX) return CROWDED;
    const used = this.#connected(work, timeoutMs);
    this.#open.add(used);
    try {
      return await used;
    } catch (error) {
      if (error instanceof OccupiedPositionError)
        return new ApiError('store_unavailable', { message: `${error.message}.` });
      if (isStoreFault(error)) return UNAVAILABLE;
      throw error;
    } finally {
      this.#open.delete(used);
    }
  }

  /** Records a read before it is made. Members' reads of their own account aren't recorded. */
  async note(who: Caller, reading: Reading): Promise<ApiError | null> {
    if (who.role === 'member') return null;
    return this.use(async (client) => {
      await noteReading(client, who, reading);
      return null;
    });
  }

  /** The same for pages of the list of events: once per session or management key, and hour. */
  async noteListing(who: Caller): Promise<ApiError | null> {
    if (who.role === 'member') return null;
    const now = performance.now();
    const reader = who.session ?? who.actor;
    const before = this.#listed.get(reader);
    if (before !== undefined && now - before < LISTING_NOTED_EVERY_MS) return null;
    // Noted first, so that two requests at once do not put it down each.
    this.#listed.delete(reader);
    this.#listed.set(reader, now);
    const [oldest] = this.#listed.keys();
    if (this.#listed.size > LISTINGS_NOTED_MAX && oldest !== undefined) this.#listed.delete(oldest);
    const refusal = await this.use(async (client) => {
      const head = await readHead(client);
      await noteReading(client, who, { what: 'events', from: Math.min(1, head), to: head });
      return null;
    });
    if (refusal) this.#listed.delete(reader);
    return refusal;
  }

  /** Waits for running audits, which their timeouts bound. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#open);
  }

  async #connected<T>(work: (client: Client) => Promise<T>, timeoutMs?: number): Promise<T> {
    const client = await connectAs(this.#store, 'auditor', timeoutMs);
    try {
      return await work(client);
    } finally {
      await closeClient(client);
    }
  }
}

/** Appends a record that a caller reads the log. */
export async function noteReading(
  client: Client,
  { actor }: Pick<Caller, 'actor'>,
  { what, from, to }: Reading,
): Promise<void> {
  const values = [actor, what, from, to];
  await client
    .query('select daybook.record_reading($1, $2, $3, $4)', values)
    .catch((error: unknown) => Promise.reject(explainAppendError(error)));
}
