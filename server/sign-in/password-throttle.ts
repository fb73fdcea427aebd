import { setTimeout as wait } from 'node:timers/promises';
import type { Pool } from 'pg';
import type { RateLimiterPostgres } from 'rate-limiter-flexible';
import { ApiError } from '#server/errors/api-error.ts';
import {
  ATTEMPT_DELAY_FIRST_MS,
  ATTEMPT_DELAY_MAX_MS,
  ATTEMPTS_DELAYED_AT_ONCE,
  ATTEMPTS_DELAYED_MAX,
  SIGN_IN_WAITING_MAX,
} from '#server/sign-in/bounds.ts';
import { attemptKey, attemptLimiter } from '#server/sign-in/throttle.ts';

/** An attempt to sign in with a password, as it is counted. */
export type PasswordAttempt = {
  email: string;
  /** The exact address, and its network: see server/sign-in/origin.ts. */
  address: string;
  network: string;
  /** A browser in which the owner of the email has signed in before; null for any other. */
  device: string | null;
};

type Counter = {
  name: string;
  free: number;
  perDoubling: number;
  by: (attempt: PasswordAttempt) => string[];
};

/** The period of the counts, in seconds. */
const PERIOD_S = 15 * 60;

/**
 * Wrong passwords are counted by each of these in the database, over all servers. `free` of them in a period
 * delay nothing; from then on the delay doubles with every `perDoubling`.
 */
const COUNTERS: readonly Counter[] = [
  { name: 'password', free: 10, perDoubling: 1, by: ({ email, address }) => [email, address] },
  { name: 'email', free: 50, perDoubling: 10, by: ({ email }) => [email] },
  { name: 'address', free: 50, perDoubling: 10, by: ({ address }) => [address] },
  // A network has many people, who must not wait for the wrong passwords of one of them for long.
  { name: 'network', free: 500, perDoubling: 100, by: ({ network }) => [network] },
];

/** The only counter of a known device: strangers can't add to it. */
const DEVICE: Counter = {
  name: 'device',
  free: 10,
  perDoubling: 1,
  by: ({ email, device }) => [email, device ?? ''],
};

/** An attempt that may be made now. */
export type AdmittedAttempt = {
  /** The password was right, or was not checked: it does not count. */
  refund(): Promise<void>;
  /** The password was right: earlier wrong ones of the same person don't count any more. */
  succeed(): Promise<void>;
};

/**
 * Slows down the guessing of passwords, without a lockout: after too many wrong passwords an attempt waits,
 * up to ATTEMPT_DELAY_MAX_MS, and is then made, so the right password still signs in. Only a bounded number
 * of attempts waits in each process, of one person and of one address; more are rejected at once with the
 * delay as `Retry-After`, before anything is counted or hashed. Known devices share none of these bounds with
 * strangers.
 */
export class PasswordThrottle {
  readonly #pool: Pool;
  readonly #pepper: Buffer;
  readonly #wait: (ms: number) => Promise<unknown>;
  readonly #limiters: ReadonlyMap<string, RateLimiterPostgres>;
  /** How many attempts wait, by the key of their bound. */
  readonly #waiting = new Map<string, number>();
  #allWaiting = 0;

  /** @param pause waits. */
  constructor(pool: Pool, pepper: Buffer, pause: (ms: number) => Promise<unknown> = wait) {
    this.#pool = pool;
    this.#pepper = pepper;
    this.#wait = pause;
    this.#limiters = new Map(
      [...COUNTERS, DEVICE].map(({ name }) => [
        name,
        attemptLimiter(pool, name, {
          // LoginThrottle clears the table.
          clearExpiredByTimeout: false,
          // Counts only: what exceeds `free` is delayed here.
          points: 2 ** 30,
          duration: PERIOD_S,
        }),
      ]),
    );
  }

  /**
   * Counts an attempt before it is made, so that concurrent ones can't escape the delay, and waits as long as
   * it has to.
   * @returns 429 if too many attempts of this person or address wait; 503 if too many wait for the database.
   * @throws database errors: an attempt that can't be counted isn't made.
   */
  async admit(attempt: PasswordAttempt): Promise<AdmittedAttempt | ApiError> {
    const slots = slotsOf(attempt);
    if (slots.some((slot) => this.#isFull(slot))) return tooMany(ATTEMPT_DELAY_MAX_MS);
    if (this.#pool.waitingCount >= SIGN_IN_WAITING_MAX) return new ApiError('relay_overloaded');
    const counters = attempt.device === null ? COUNTERS : [DEVICE];
    const counts = await Promise.all(
      counters.map(async (counter) => ({
        counter,
        count: (await this.#limiter(counter).consume(this.#key(counter, attempt))).consumedPoints,
      })),
    );
    const refund = async (): Promise<void> => {
      await Promise.all(
        counters.map((counter) => this.#limiter(counter).reward(this.#key(counter, attempt))),
      );
    };
    const delayMs = Math.max(...counts.map(({ counter, count }) => attemptDelayMs(counter, count)));
    if (delayMs > 0) {
      if (slots.some((slot) => this.#isFull(slot))) {
        await refund();
        return tooMany(delayMs);
      }
      await this.#delay(slots, delayMs);
    }
    return {
      refund,
      succeed: async () => {
        await refund();
        const [own] = counters;
        if (own) await this.#limiter(own).delete(this.#key(own, attempt));
      },
    };
  }

  async #delay(slots: readonly Slot[], delayMs: number): Promise<void> {
    this.#allWaiting++;
    for (const { key } of slots) this.#waiting.set(key, (this.#waiting.get(key) ?? 0) + 1);
    try {
      await this.#wait(delayMs);
    } finally {
      this.#allWaiting--;
      for (const { key } of slots) {
        const left = (this.#waiting.get(key) ?? 1) - 1;
        if (left === 0) this.#waiting.delete(key);
        else this.#waiting.set(key, left);
      }
    }
  }

  #isFull({ key, max, total }: Slot): boolean {
    return (this.#waiting.get(key) ?? 0) >= max || this.#allWaiting >= total;
  }

  #limiter({ name }: Counter): RateLimiterPostgres {
    return this.#limiters.get(name) as RateLimiterPostgres;
  }

  #key({ name, by }: Counter, attempt: PasswordAttempt): string {
    return attemptKey(this.#pepper, name, by(attempt));
  }
}

/** A bound of the attempts that wait: `max` of the same key, and `total` of all. */
type Slot = { key: string; max: number; total: number };

/** Known devices may fill a reserve that strangers can't. */
function slotsOf({ email, address, device }: PasswordAttempt): Slot[] {
  const { person, address: ofAddress } = ATTEMPTS_DELAYED_AT_ONCE;
  if (device !== null)
    return [{ key: JSON.stringify([email, 'device', device]), max: person, total: ATTEMPTS_DELAYED_MAX.all }];
  const total = ATTEMPTS_DELAYED_MAX.strangers;
  return [
    { key: JSON.stringify([email, address]), max: person, total },
    { key: JSON.stringify([address]), max: ofAddress, total },
  ];
}

/** The delay of the attempt with this count. Pure. */
function attemptDelayMs({ free, perDoubling }: Counter, count: number): number {
  if (count <= free) return 0;
  return Math.min(
    ATTEMPT_DELAY_MAX_MS,
    ATTEMPT_DELAY_FIRST_MS * 2 ** Math.floor((count - free - 1) / perDoubling),
  );
}

const tooMany = (delayMs: number): ApiError =>
  new ApiError('too_many_attempts', { retryAfterS: Math.max(1, Math.ceil(delayMs / 1_000)) });
