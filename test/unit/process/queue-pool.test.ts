import type { Pool, PoolClient } from 'pg';
import { expect, test } from 'vitest';
import { CONNECT_ATTEMPTS_MAX, retryConnects } from '../../../worker/queue-pool.ts';

/** A pool whose first connections fail as those of a busy machine do. */
function busyPool(failures: number) {
  const seen = { attempts: 0 };
  const connect = (connected?: (error: Error | undefined) => void): Promise<PoolClient> | undefined => {
    seen.attempts++;
    const error =
      seen.attempts <= failures ? new Error('timeout exceeded when trying to connect') : undefined;
    if (connected) {
      connected(error);
      return;
    }
    return error ? Promise.reject(error) : Promise.resolve({} as PoolClient);
  };
  return { seen, pool: { connect: connect as unknown as Pool['connect'] } };
}

test('a connection that times out is retried', async () => {
  const { seen, pool } = busyPool(2);
  await retryConnects(pool, new AbortController().signal).connect();
  expect(seen.attempts).toBe(3);
});

test('the last attempt fails with the reason', async () => {
  const { seen, pool } = busyPool(Infinity);
  const connecting = retryConnects(pool, new AbortController().signal).connect();
  await expect(connecting).rejects.toThrow('timeout exceeded when trying to connect');
  expect(seen.attempts).toBe(CONNECT_ATTEMPTS_MAX);
});

test('a worker that stops does not retry', async () => {
  const { seen, pool } = busyPool(Infinity);
  await expect(retryConnects(pool, AbortSignal.abort()).connect()).rejects.toThrow('timeout exceeded');
  expect(seen.attempts).toBe(1);
});

test('connections by callback are left to the backoff of their caller', () => {
  const { seen, pool } = busyPool(1);
  const errors: (Error | undefined)[] = [];
  retryConnects(pool, new AbortController().signal).connect((error) => errors.push(error));
  expect([seen.attempts, errors[0]?.message]).toEqual([1, 'timeout exceeded when trying to connect']);
});
