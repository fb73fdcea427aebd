import { NOTIFY_AT_ONCE, NOTIFY_EVERY_MS } from '#server/instance/bounds.ts';

/**
 * Which appends notify the readers of the log. A notification wakes every process that listens, which costs
 * more CPU than the append, so a log in steady use sends four a second, whatever the rate. After a pause the
 * next appends notify at once. Pure.
 */
export class NotificationPace {
  /** When the next notification would be due, had all so far kept their distance. */
  #dueMs = -Infinity;

  /** @returns whether a notification is due at this time, which then counts as sent. */
  take(nowMs: number): boolean {
    this.#dueMs = Math.max(this.#dueMs, nowMs - (NOTIFY_AT_ONCE - 1) * NOTIFY_EVERY_MS);
    if (this.#dueMs > nowMs) return false;
    this.#dueMs += NOTIFY_EVERY_MS;
    return true;
  }
}
