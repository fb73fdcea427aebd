import { setTimeout as sleep } from 'node:timers/promises';
import { makeBody } from '../driver/bodies.ts';

/**
 * Brings a hard quota near its limit and keeps it there: open streams reserve all but a small part
 * for as long as a run takes. Postgres then decides each further admission.
 */

/** Reservations are stored in 32 bits, so few calls could not exhaust a larger quota. */
export const NEAR_LIMIT_TOKENS = 2_000_000_000;

/** Left by the streams. A run uses a small part, since its calls have 308 tokens each. */
const LEFT_TOKENS = 90_000_000;

/** With fewer tokens free, a limit is near; `daybook.exchange` has the same twentieth. */
const NEAR_TOKENS = NEAR_LIMIT_TOKENS / 20;

/** A stream may be granted less than is free, when the server has leased some units already. */
const STREAMS_MAX = 5;

const POLL_MS = 50;
const GIVEN_BACK_TIMEOUT_MS = 10_000;

export type NearEnd = {
  /** A fault of the state to be measured, counted as an error; null if it is right. */
  findFault: () => Promise<string | null>;
  /** Releases the reserved part. */
  release: () => Promise<void>;
};

/** @throws when a stream is rejected. */
export async function bringNear(port: number, authorization: string): Promise<NearEnd> {
  const client = new AbortController();
  const readFree = (): Promise<number> => readFreeOf(port, authorization);
  const streams: Promise<unknown>[] = [];
  const release = async (): Promise<void> => {
    client.abort();
    await Promise.all(streams);
    // The next streams hold what is free by then, so they must find all of it.
    const deadline = performance.now() + GIVEN_BACK_TIMEOUT_MS;
    while ((await readFree()) < NEAR_TOKENS && performance.now() < deadline) await sleep(POLL_MS);
  };
  try {
    for (
      let free = await readFree();
      free >= NEAR_TOKENS && streams.length < STREAMS_MAX;
      free = await readFree()
    ) {
      const reply = await openStream(port, authorization, free - LEFT_TOKENS, client.signal);
      // Read and forgotten, since a client that takes nothing would be cut; it ends when we leave.
      streams.push(reply.pipeTo(new WritableStream()).catch(() => {}));
    }
  } catch (error) {
    await release();
    throw error;
  }
  return {
    findFault: async () => {
      const free = await readFree();
      return free < NEAR_TOKENS
        ? null
        : `the quota was not near its limit: ${((free / NEAR_LIMIT_TOKENS) * 100).toFixed(1)} % free`;
    },
    release,
  };
}

async function openStream(
  port: number,
  authorization: string,
  maxTokens: number,
  signal: AbortSignal,
): Promise<ReadableStream> {
  const body = makeBody({
    model: 'mock-idle',
    bytes: 1024,
    shape: 'chat',
    sse: true,
    asksUsage: false,
    maxTokens,
  });
  const headers = { 'content-type': 'application/json', authorization };
  const url = `http://127.0.0.1:${port}/v1/chat/completions`;
  const reply = await fetch(url, { method: 'POST', headers, body: new Uint8Array(body), signal });
  if (reply.status !== 200 || !reply.body)
    throw new Error(`the stream that should reserve the quota got ${reply.status}: ${await reply.text()}`);
  return reply.body;
}

async function readFreeOf(port: number, authorization: string): Promise<number> {
  const reply = await fetch(`http://127.0.0.1:${port}/v1/usage`, { headers: { authorization } });
  if (reply.status !== 200) throw new Error(`the key may not see its usage: ${reply.status}`);
  const { limits } = (await reply.json()) as { limits: { limit: number; remaining: number }[] };
  const limit = limits.find((each) => each.limit === NEAR_LIMIT_TOKENS);
  if (!limit) throw new Error('the key has no quota to bring near its limit');
  return limit.remaining;
}
