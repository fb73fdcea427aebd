import { setTimeout as wait } from 'node:timers/promises';

const MINUTE_MS = 60_000;

/**
 * Waits for the next minute when less than this is left of the running one, so that it doesn't end in the
 * middle of a test.
 */
export async function minuteWith(leftMs: number): Promise<void> {
  const left = MINUTE_MS - (Date.now() % MINUTE_MS);
  if (left < leftMs) await wait(left + 50);
}

/** Waits until about this much is left of the running minute, or of the next. */
export async function minuteAlmostOver(leftMs: number): Promise<void> {
  const left = MINUTE_MS - (Date.now() % MINUTE_MS);
  await wait(left >= leftMs ? left - leftMs : left + MINUTE_MS - leftMs);
}
