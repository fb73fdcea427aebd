import { setTimeout as wait } from 'node:timers/promises';
import type { Client } from 'pg';
import type { Store } from '#db/postgres/connect.ts';
import { openSession } from '../support/database.ts';

/**
 * The clock by which a sink's deliveries are retried, which a run moves on. It never skips a retry: time
 * passes at once up to the next one, which then has to happen, so that an outage of an hour has all of its
 * retries with all of their growing pauses, in the minutes that the kills take.
 */

/** How often it is looked whether a retry that is due was carried out. */
const LOOK_MS = 100;

const NEXT_RETRY = `select (extract(epoch from retry_at - clock_timestamp()) * 1000)::float8 as wait_ms
  from daybook.sink where retry_at > clock_timestamp()`;
/** What is seen of a sink after a pause: all of its times are longer ago. */
const PASS = `update daybook.sink set retry_at = retry_at - passed, failing_since = failing_since - passed,
    delivered_at = delivered_at - passed
  from (select $1 * interval '1 millisecond' as passed) p where retry_at > clock_timestamp()`;

export class RetryClock {
  readonly #store: Store;
  #startedAtMs = 0;
  #passedMs = 0;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Begins to count time. */
  start(): void {
    this.#startedAtMs = performance.now();
    this.#passedMs = 0;
  }

  /** The time since the start, real and passed, in ms. */
  get elapsedMs(): number {
    return performance.now() - this.#startedAtMs + this.#passedMs;
  }

  /** Lets time pass until so many ms have elapsed since the start. */
  async passUntil(elapsedMs: number): Promise<void> {
    while (this.elapsedMs < elapsedMs) {
      const passedMs = await this.#query((client) => pass(client, elapsedMs - this.elapsedMs));
      this.#passedMs += passedMs;
      if (passedMs === 0) await wait(Math.min(LOOK_MS, Math.max(0, elapsedMs - this.elapsedMs)));
    }
  }

  /** Ends a pause before a retry. */
  async skipPause(): Promise<void> {
    this.#passedMs += await this.#query((client) => pass(client, Infinity));
  }

  /** The failed deliveries in a row. */
  failures(): Promise<number> {
    return this.#query(async (client) => {
      const { rows } = await client.query<{ failures: number }>('select failures from daybook.sink');
      return rows[0]?.failures ?? 0;
    });
  }

  /** Over a connection of its own: PostgreSQL is killed between two statements. */
  async #query<T>(work: (client: Client) => Promise<T>): Promise<T> {
    const client = await openSession(this.#store.config('owner'));
    try {
      return await work(client);
    } finally {
      await client.end();
    }
  }
}

/** Lets time pass up to the next retry, at most `maxMs`. @returns the time that passed. */
async function pass(client: Client, maxMs: number): Promise<number> {
  const { rows } = await client.query<{ wait_ms: number }>(NEXT_RETRY);
  const passedMs = Math.min(rows[0]?.wait_ms ?? 0, maxMs);
  if (passedMs > 0) await client.query(PASS, [passedMs]);
  return Math.max(0, passedMs);
}
