import type { ClientConfig, Pool } from 'pg';
import type { EventOf } from '#db/events/events.ts';
import {
  type BackgroundCall,
  beginBackground,
  type BegunCall,
  hastenBackground,
  isInBackground,
  postponeBackground,
  releaseBackground,
  settleBackground,
  takeDueBackground,
} from '#db/stored/background.ts';
import { insertPlaces, type StoredName } from '#db/stored/places.ts';
import { openPool } from '#db/postgres/connect.ts';
import type { CallObserver } from '#server/diagnostics/call-observer.ts';
import { POLL_TAKEN_MS, STORED_CONNECTIONS_MAX, STORED_IDLE_MS } from '#server/stored/bounds.ts';

type Released = Parameters<typeof releaseBackground>[1];

/** Calls whose responses go on in the background, in the database. */
export class BackgroundStore {
  readonly #pool: Pool;
  readonly #onError: (error: unknown) => void;
  readonly #observer: Pick<CallObserver, 'recordedApart'> | null;
  /** Called when a response of this process is or becomes due. */
  onDue: () => void = () => {};
  /** Calls that were handed over in the log, and still have this process as their holder. */
  readonly #unreleased = new Map<string, Released>();

  /** @param config of the relay's role. */
  constructor(
    config: ClientConfig,
    onError: (error: unknown) => void,
    observer: Pick<CallObserver, 'recordedApart'> | null,
  ) {
    this.#pool = openPool({ ...config, max: STORED_CONNECTIONS_MAX, idleTimeoutMillis: STORED_IDLE_MS });
    this.#onError = onError;
    this.#observer = observer;
  }

  /** Records that a call may outlive its server. @returns false: it could not be recorded. */
  async begin(row: BegunCall, instance: number): Promise<boolean> {
    try {
      const { account, id, upstream, credential } = row;
      await insertPlaces(this.#pool, [{ account, id, kind: 'response', upstream, credential }]);
      await beginBackground(this.#pool, instance, row);
      return true;
    } catch (error) {
      this.#onError(error);
      return false;
    }
  }

  /** Lets any server settle a call. It is retried until it succeeds, or the holder has ended. */
  release(released: Released): void {
    this.#unreleased.set(released.request, released);
    this.onDue();
    void this.releaseAll();
  }

  async releaseAll(): Promise<void> {
    for (const [request, released] of this.#unreleased) {
      try {
        await releaseBackground(this.#pool, released);
        this.#unreleased.delete(request);
      } catch (error) {
        return this.#onError(error);
      }
    }
  }

  takeDue(instance: number, limit: number): Promise<BackgroundCall[]> {
    return takeDueBackground(this.#pool, instance, limit, POLL_TAKEN_MS);
  }

  postpone(request: string, ms: number): Promise<void> {
    return postponeBackground(this.#pool, request, ms);
  }

  async hasten(name: StoredName): Promise<void> {
    await hastenBackground(this.#pool, name);
    this.onDue();
  }

  has(name: StoredName): Promise<boolean> {
    return isInBackground(this.#pool, name);
  }

  async settle(instance: number, ending: EventOf<'request.settled' | 'request.abandoned'>): Promise<void> {
    const client = await this.#pool.connect();
    try {
      const isSettled = await settleBackground(client, instance, ending);
      if (isSettled) this.#observer?.recordedApart([ending]);
    } finally {
      client.release();
    }
  }

  async close(): Promise<void> {
    await this.releaseAll();
    await this.#pool.end();
  }
}
