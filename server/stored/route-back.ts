import { setTimeout as wait } from 'node:timers/promises';
import type { ClientConfig, Pool } from 'pg';
import { STORED_ID_CHARACTERS_MAX } from '#db/stored/bounds.ts';
import {
  addPlaces,
  deletePlace,
  describePlace,
  insertPlaces,
  listPlaces,
  type PlaceList,
  readPlace,
  type StoredKind,
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

const STORED_ID = new RegExp(`^[\\x21-\\x7e]{1,${STORED_ID_CHARACTERS_MAX}}$`);

/** Whether a text can be the id of a stored object. Longer ones can't be routed back. */
export const isStoredId = (text: unknown): text is string => typeof text === 'string' && STORED_ID.test(text);

/**
 * The route-back table: which upstream and credential hold a stored response, file or batch. Places of
 * responses are written in batches, off the path of the calls: this process knows a place from when it sees
 * the id in a reply, the others some milliseconds later. Those of files and batches are written before their
 * clients see the ids. Only an account that made an object finds its place.
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

  /** Notes where an object is stored. An id that can't be one is ignored. */
  note(row: StoredRow): void {
    if (!isStoredId(row.id) || this.#isClosed) return;
    if (this.#waiting.size >= PLACES_WAITING_MAX) {
      this.dropped++;
      return;
    }
    this.#waiting.set(nameOf(row), row);
    if (this.#writing === null) this.#timer ??= setTimeout(() => void this.flush(), PLACE_LINGER_MS);
  }

  /** @returns null: this account made no such object, or it was deleted. @throws if the store is away. */
  async find(name: StoredName, kind: StoredKind): Promise<StoredPlace | null> {
    for (const afterMs of PLACE_LOOK_AFTER_MS) {
      if (afterMs > 0) await wait(afterMs);
      const place = this.#waiting.get(nameOf(name)) ?? (await readPlace(this.#pool, name));
      if (place !== null) return place.kind === kind ? place : null;
    }
    return null;
  }

  /** Writes where an object is stored, before its client sees the id. @throws if the store is away. */
  keep(row: StoredRow): Promise<void> {
    return insertPlaces(this.#pool, [row]);
  }

  /** The same of objects that may be known already. */
  add(rows: readonly StoredRow[]): Promise<void> {
    return addPlaces(this.#pool, rows);
  }

  /** Replaces what lists show of an object. */
  describe(name: StoredName, content: string): Promise<void> {
    return describePlace(this.#pool, name, content);
  }

  list(page: PlaceList): Promise<string[]> {
    return listPlaces(this.#pool, page);
  }

  /** The object was deleted. */
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
