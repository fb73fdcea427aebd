import { holderName } from '#db/limits/subjects.ts';
import { isEnforced, type SubjectLimits } from '#db/limits/limits.ts';
import { COUNTS_PER_MINUTE_MAX } from '#server/counting/bounds.ts';
import { ApiError } from '#server/errors/api-error.ts';

const MINUTE_MS = 60_000;

/**
 * The counts of tokens of each key and account in the current minute. They are limited like requests in a
 * minute, but apart from them, so that counting uses up nothing that a call needs; and by each server
 * process, since a count costs nothing. Pure.
 */
export class CountLimiter {
  #minute = 0;
  readonly #counts = new Map<string, number>();

  /**
   * Takes one count.
   * @param subjects the limits of its key and account.
   * @returns an error where a limit is reached.
   */
  take(keyId: string, subjects: readonly SubjectLimits[], nowMs: number): ApiError | null {
    const minute = Math.floor(nowMs / MINUTE_MS);
    if (minute !== this.#minute) {
      this.#minute = minute;
      this.#counts.clear();
    }
    const caps = new Map([[holderName('key', keyId), COUNTS_PER_MINUTE_MAX]]);
    for (const { subject, limits } of subjects) {
      for (const limit of limits)
        if (limit.meter === 'requests' && limit.window === 'minute' && isEnforced(limit))
          caps.set(subject, Math.min(limit.cap, caps.get(subject) ?? Infinity));
    }
    for (const [subject, cap] of caps) {
      if ((this.#counts.get(subject) ?? 0) < cap) continue;
      return new ApiError('rate_limit_exceeded', {
        message: `The limit of ${cap} counts of tokens in a minute is reached. Wait for the next minute.`,
        retryAfterMs: MINUTE_MS - (nowMs % MINUTE_MS),
      });
    }
    for (const subject of caps.keys()) this.#counts.set(subject, (this.#counts.get(subject) ?? 0) + 1);
    return null;
  }
}
