import { createHmac } from 'node:crypto';
import type { Pool } from 'pg';
import { RateLimiterPostgres, RateLimiterRes } from 'rate-limiter-flexible';
import { ApiError } from '#server/errors/api-error.ts';
import { SIGN_IN_WAITING_MAX } from '#server/sign-in/bounds.ts';

/**
 * How often something may be tried, counted in the database, so that it holds over all servers. An
 * address is never counted by itself, only together with the network that tries: nobody can lock
 * somebody else out from elsewhere.
 */
const LIMITS = {
  /** Wrong passwords for one address from one network. */
  password: { points: 10, duration: 15 * 60 },
  /** The same for all addresses. */
  passwords: { points: 100, duration: 15 * 60 },
  /** Wrong codes for one member. Only who knows the password gets so far. */
  code: { points: 20, duration: 60 * 60 },
  /** Registrations from one network. */
  registration: { points: 5, duration: 60 * 60 },
  /** Reset links asked for from one network. */
  forgotten: { points: 5, duration: 60 * 60 },
} as const;

export type AttemptKind = keyof typeof LIMITS;

export class LoginThrottle {
  readonly #limiters: Record<AttemptKind, RateLimiterPostgres>;
  readonly #pool: Pool;
  readonly #pepper: Buffer;

  constructor(pool: Pool, pepper: Buffer) {
    this.#pool = pool;
    this.#pepper = pepper;
    const limiter = (name: AttemptKind): RateLimiterPostgres =>
      new RateLimiterPostgres({
        storeClient: pool,
        storeType: 'pool',
        schemaName: 'daybook',
        tableName: 'attempt',
        tableCreated: true,
        // One of them looks after the table, which all share.
        clearExpiredByTimeout: name === 'password',
        keyPrefix: name,
        // Who has had all of theirs costs the store nothing more.
        inMemoryBlockOnConsumed: LIMITS[name].points + 1,
        ...LIMITS[name],
      });
    this.#limiters = {
      password: limiter('password'),
      passwords: limiter('passwords'),
      code: limiter('code'),
      registration: limiter('registration'),
      forgotten: limiter('forgotten'),
    };
  }

  /**
   * Counts an attempt before it is made, so that many at once count as many; 503 where too many wait to be
   * counted.
   * @param by whose attempts are counted together.
   * @throws what the store throws: an attempt that can't be counted isn't made.
   */
  async count(tried: AttemptKind, ...by: readonly string[]): Promise<ApiError | null> {
    if (this.#pool.waitingCount >= SIGN_IN_WAITING_MAX) return new ApiError('relay_overloaded');
    try {
      await this.#limiters[tried].consume(this.#key(tried, by));
      return null;
    } catch (error) {
      if (!(error instanceof RateLimiterRes)) throw error;
      return new ApiError('too_many_attempts', {
        retryAfterS: Math.max(1, Math.ceil(error.msBeforeNext / 1_000)),
      });
    }
  }

  /** Takes one back that was none. */
  async refund(tried: AttemptKind, ...by: readonly string[]): Promise<void> {
    await this.#limiters[tried].reward(this.#key(tried, by));
    // Whoever was refused for it may try again.
    this.#limiters[tried].deleteInMemoryBlockedAll();
  }

  /** Forgets those before: this one succeeded. */
  async reset(tried: AttemptKind, ...by: readonly string[]): Promise<void> {
    await this.#limiters[tried].delete(this.#key(tried, by));
  }

  /** Neither addresses nor networks can be read in the table. */
  #key(tried: AttemptKind, by: readonly string[]): string {
    return createHmac('sha256', this.#pepper)
      .update(JSON.stringify(['daybook attempts', tried, ...by]))
      .digest('base64url');
  }
}
