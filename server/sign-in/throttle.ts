import { createHmac } from 'node:crypto';
import type { Pool } from 'pg';
import { RateLimiterPostgres, RateLimiterRes } from 'rate-limiter-flexible';
import { ApiError } from '#server/errors/api-error.ts';
import { SIGN_IN_WAITING_MAX } from '#server/sign-in/bounds.ts';

/**
 * Limits attempts, counted in the database so that they hold over all servers. For passwords see
 * server/sign-in/password-throttle.ts.
 */
const LIMITS = {
  /** Wrong codes for one member; requires the password. */
  code: { points: 20, duration: 60 * 60 },
  /** Registrations from one network. */
  registration: { points: 5, duration: 60 * 60 },
  /** Requests for reset links from one network. */
  forgotten: { points: 5, duration: 60 * 60 },
  /** Exchanged tokens of workloads from one network, which may be that of a whole cluster. */
  exchange: { points: 3_000, duration: 60 * 60 },
  /** Sign-ins through providers from one network, which may be that of a company. */
  provider: { points: 500, duration: 60 * 60 },
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
      attemptLimiter(pool, name, {
        // One limiter clears the shared table.
        clearExpiredByTimeout: name === 'code',
        // Exhausted keys are blocked in memory, without a query.
        inMemoryBlockOnConsumed: LIMITS[name].points + 1,
        ...LIMITS[name],
      });
    this.#limiters = {
      code: limiter('code'),
      registration: limiter('registration'),
      forgotten: limiter('forgotten'),
      provider: limiter('provider'),
      exchange: limiter('exchange'),
    };
  }

  /**
   * Counts an attempt before it is made, so that concurrent ones can't exceed the limit; 503 if too many are
   * waiting.
   * @param by what the attempts are counted by.
   * @throws database errors: an attempt that can't be counted isn't made.
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

  /** Resets the count after a success. */
  async reset(tried: AttemptKind, ...by: readonly string[]): Promise<void> {
    await this.#limiters[tried].delete(this.#key(tried, by));
  }

  #key(tried: AttemptKind, by: readonly string[]): string {
    return attemptKey(this.#pepper, tried, by);
  }
}

/** A limiter that counts in the table of attempts, which all limiters share. */
export function attemptLimiter(
  pool: Pool,
  name: string,
  options: {
    points: number;
    duration: number;
    clearExpiredByTimeout: boolean;
    inMemoryBlockOnConsumed?: number;
  },
): RateLimiterPostgres {
  return new RateLimiterPostgres({
    storeClient: pool,
    storeType: 'pool',
    schemaName: 'daybook',
    tableName: 'attempt',
    tableCreated: true,
    keyPrefix: name,
    ...options,
  });
}

/** What attempts are counted by: a keyed hash, so that the table reveals no emails or networks. */
export function attemptKey(pepper: Buffer, kind: string, by: readonly string[]): string {
  return createHmac('sha256', pepper)
    .update(JSON.stringify(['daybook attempts', kind, ...by]))
    .digest('base64url');
}
