import { setTimeout as wait } from 'node:timers/promises';
import type { Pool, PoolClient } from 'pg';
import { RECONNECT_FIRST_MS, RECONNECT_MAX_MS } from '#db/bounds.ts';

/**
 * Attempts of a job, or of the queue itself, to get a connection. With their pauses they take a second where
 * the database refuses connections, and ten where each attempt times out.
 */
export const CONNECT_ATTEMPTS_MAX = 6;

type Connect = () => Promise<PoolClient>;
type Connected = Parameters<Pool['connect']>[0];

/**
 * Makes a pool retry what can't connect, with exponential backoff. Nothing was sent by then, so that a retry
 * is safe whatever the connection was for. A busy machine makes attempts time out, for which the queue has no
 * retry of its own: it would fail the job, or forget that one is complete.
 * Connections by callback are not retried: the queue's listener has a backoff.
 * @param signal ends the retries.
 */
export function retryConnects<P extends Pick<Pool, 'connect'>>(pool: P, signal: AbortSignal): P {
  const connect = pool.connect.bind(pool) as Connect & ((connected: Connected) => void);
  async function retrying(): Promise<PoolClient> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await connect();
      } catch (error) {
        if (attempt === CONNECT_ATTEMPTS_MAX || signal.aborted) throw error;
        const pauseMs = Math.min(RECONNECT_MAX_MS, RECONNECT_FIRST_MS * 2 ** (attempt - 1));
        await wait(pauseMs, undefined, { signal }).catch(() => undefined);
      }
    }
  }
  pool.connect = ((connected?: Connected) =>
    connected === undefined ? retrying() : connect(connected)) as Pool['connect'];
  return pool;
}
