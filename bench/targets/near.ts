import { setTimeout as sleep } from 'node:timers/promises';
import { makeBody } from '../driver/bodies.ts';

/**
 * Brings an exact quota near its end and keeps it there: one stream holds all but a little of it
 * for as long as a run takes. The store then decides each further admission by itself.
 */

/** Holds are stored in 32 bits, so that a larger quota could not be brought near its end by one call. */
export const NEAR_LIMIT_TOKENS = 2_000_000_000;

/** What the stream leaves: a run uses up a small part of it, since its calls have 308 tokens each. */
const LEFT_TOKENS = 90_000_000;

/** With less than this free, a limit is near its end; the same twentieth is in `daybook.exchange`. */
const NEAR_SHARE = 0.05;

const POLL_MS = 50;
const GIVEN_BACK_TIMEOUT_MS = 10_000;

export type NearEnd = {
  /** What is wrong with the state that was to be measured, as an error to be counted; null: nothing. */
  findFault: () => Promise<string | null>;
  /** Gives the held part back. */
  release: () => Promise<void>;
};

/** @throws when the stream is refused. */
export async function bringNear(port: number, authorization: string): Promise<NearEnd> {
  const client = new AbortController();
  const maxTokens = (await readFree(port, authorization)) - LEFT_TOKENS;
  const body = makeBody({ model: 'mock-idle', bytes: 1024, shape: 'chat', sse: true, asksUsage: false, maxTokens });
  const reply = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization },
    body: new Uint8Array(body),
    signal: client.signal,
  });
  if (reply.status !== 200) throw new Error(`the stream that is to hold the quota gets ${reply.status}: ${await reply.text()}`);
  // Read and forgotten, since a client that takes nothing would be cut; it ends when we leave.
  const gone = reply.body?.pipeTo(new WritableStream()).catch(() => {});
  return {
    findFault: async () => {
      const share = (await readFree(port, authorization)) / NEAR_LIMIT_TOKENS;
      return share < NEAR_SHARE ? null : `the quota was not near its end: ${(share * 100).toFixed(1)} % free`;
    },
    release: async () => {
      client.abort();
      await gone;
      // The next stream holds what is free by then, so it must find all of it.
      const deadline = performance.now() + GIVEN_BACK_TIMEOUT_MS;
      while ((await readFree(port, authorization)) <= LEFT_TOKENS && performance.now() < deadline) await sleep(POLL_MS);
    },
  };
}

async function readFree(port: number, authorization: string): Promise<number> {
  const reply = await fetch(`http://127.0.0.1:${port}/v1/usage`, { headers: { authorization } });
  if (reply.status !== 200) throw new Error(`the key may not see its usage: ${reply.status}`);
  const { limits } = (await reply.json()) as { limits: { limit: number; free: number }[] };
  const limit = limits.find((each) => each.limit === NEAR_LIMIT_TOKENS);
  if (!limit) throw new Error('the key has no quota to be brought near its end');
  return limit.free;
}
