/**
 * When a delivery is retried, and with how many events. While it fails, it gets a single small batch after
 * growing pauses: a receiver that is down costs one request in some minutes, and a batch that it refuses is
 * narrowed down to the event at fault. Pure.
 */

const FIRST_MS = 1_000;
const MAX_MS = 300_000;

/**
 * The pause after a failed delivery in ms.
 * @param failures before it, since the last success.
 * @param random from 0 to 1, so that sinks of one receiver don't retry at once.
 */
export function pauseAfter(failures: number, random: number): number {
  const pauseMs = Math.min(MAX_MS, FIRST_MS * 2 ** Math.min(failures, 20));
  return Math.round(pauseMs * (0.5 + random / 2));
}

/** The most events of the next batch: half after each failure, at least one. */
export const batchAfter = (batchMax: number, failures: number): number =>
  Math.max(1, Math.floor(batchMax / 2 ** Math.min(failures, 20)));
