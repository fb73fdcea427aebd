import { setTimeout as wait } from 'node:timers/promises';

const MINUTE_MS = 60_000;

const ATTEMPTS_MAX = 3;

/**
 * Runs a trial of limits per minute within one minute. It waits for the next one when less than this is left
 * of the running one, and makes the trial again, with its next number, when the minute ended all the same:
 * nobody knows how long a trial takes on a busy machine.
 */
export async function withinOneMinute<T>(leftMs: number, trial: (attempt: number) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    const left = MINUTE_MS - (Date.now() % MINUTE_MS);
    if (left < leftMs || attempt > 1) await wait(left + 50);
    const minute = minuteNow();
    const [outcome] = await Promise.allSettled([trial(attempt)]);
    if (minuteNow() !== minute && attempt < ATTEMPTS_MAX) continue;
    if (outcome.status === 'rejected') throw outcome.reason;
    return outcome.value;
  }
}

const minuteNow = (): number => Math.floor(Date.now() / MINUTE_MS);

/** Waits until about this much is left of the running minute, or of the next. */
export async function minuteAlmostOver(leftMs: number): Promise<void> {
  const left = MINUTE_MS - (Date.now() % MINUTE_MS);
  await wait(left >= leftMs ? left - leftMs : left + MINUTE_MS - leftMs);
}
