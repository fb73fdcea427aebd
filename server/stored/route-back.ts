import { setTimeout as wait } from 'node:timers/promises';
import type { ClientConfig, Pool } from 'pg';
import { RESPONSE_ID_CHARACTERS_MAX } from '#db/stored/bounds.ts';
import {
  deletePlace,
  insertPlaces,
  readPlace,
  type StoredName,
  type StoredPlace,
  type StoredRow,
} from '#db/stored/places.ts';
import { openPool } from '#db/postgres/connect.ts';
import {
  PLACE_LINGER_MS,
  PLACE_LOOK_AFTER_MS,
  PLACES_BATCH_MAX,
  PLACES_RETRY_MS,
  PLACES_WAITING_MAX,
  STORED_CONNECTIONS_MAX,
  STORED_IDLE_MS,
} from '#server/stored/bounds.ts';

const RESPONSE_ID = new RegExp(`^[\\x21-\\x7e]{1,${RESPONSE_ID_CHARACTERS_MAX}}$`);

/** Whether a text can be the id of a stored response. Longer ones can't be routed back. */
export const isResponseId = (text: unknown): text is string =>
  typeof text === 'string' && RESPONSE_ID.test(text);

/**
 * The route-back table: which upstream and credential hold a stored response. Places are written in batches,
 * off the path of the calls: this process knows a place from when it sees the id in a reply, the others
 * some milliseconds later. Only an account that made a response finds its place.
 */
export class RouteBack {
  readonly #pool: Pool;
  readonly #onError: (error: unknown) => void;
  /** Places that wait to be written, or are being written. */
  readonly #waiting = new Map<string, StoredRow>();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | null = null;
  #isClosed = false;
  /** Places that were not written, since too many waited. */
  dropped = 0;

  /**
   * @param config of the relay's role.
   * @param onError called when a batch could not be written; it is written again later.
   */
  constructor(config: ClientConfig, onError: (error: unknown) => void) {
    this.#pool = openPool({ ...config, max: STORED_CONNECTIONS_MAX, idleTimeoutMillis: STORED_IDLE_MS });
    this.#onError = onError;
  }

  /** Notes where a response is stored. An id that can't be one is ignored. */
  note(row: StoredRow): void {
    if (!isResponseId(row.id) || this.#isClosed) return;
    if (this.#waiting.size >= PLACES_WAITING_MAX) {
      this.dropped++;
      return;
    }
    this.#waiting.set(nameOf(row), row);
    if (this.#writing === null) this.#timer ??= setTimeout(() => void this.flush(), PLACE_LINGER_MS);
  }

  /** @returns null: this account made no such response, or it was deleted. @throws if the store is away. */
  async find(name: StoredName): Promise<StoredPlace | null> {
    for (const afterMs of PLACE_LOOK_AFTER_MS) {
      if (afterMs > 0) await wait(afterMs);
      const place = this.#waiting.get(nameOf(name)) ?? (await readPlace(this.#pool, name));
      if (place !== null) return place;
    }
    return null;
  }

  /** The response was deleted. */
  async forget(name: StoredName): Promise<void> {
    if (this.#waiting.has(nameOf(name))) await this.flush();
    await deletePlace(this.#pool, name);
  }

  /** Writes all places that wait. Never throws; after a failure the rest is written later. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing ??= this.#write().finally(() => {
      this.#writing = null;
    });
    return this.#writing;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#writing;
    await this.flush();
    await this.#pool.end();
  }

  async #write(): Promise<void> {
    try {
      while (this.#waiting.size > 0) {
        const batch = [...this.#waiting.entries()].slice(0, PLACES_BATCH_MAX);
        await insertPlaces(
          this.#pool,
          batch.map(([, row]) => row),
        );
        // A newer place of the same name waits for the next batch.
        for (const [name, row] of batch) if (this.#waiting.get(name) === row) this.#waiting.delete(name);
      }
    } catch (error) {
      this.#onError(error);
      if (!this.#isClosed) this.#timer ??= setTimeout(() => void this.flush(), PLACES_RETRY_MS);
    }
  }
}

const nameOf = ({ account, id }: StoredName): string => `${account} ${id}`;
