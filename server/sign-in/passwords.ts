import { argon2, type Argon2Parameters, randomBytes, timingSafeEqual } from 'node:crypto';
import { PASSWORD_HASHES_AT_ONCE, PASSWORD_HASHES_WAITING_MAX } from '#server/sign-in/bounds.ts';
import { ApiError } from '#server/errors/api-error.ts';

/** OWASP's minimum for argon2id: about 40 ms and 19 MiB. Stored with each hash, so that it can be raised. */
const COST = { memory: 19_456, passes: 2, parallelism: 1 } as const;
const SALT_BYTES = 16;
const HASH_BYTES = 32;
const PHC = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/;

const BUSY = new ApiError('relay_overloaded', { message: 'Too many pending sign-ins. Try again.' });

/**
 * Hashes passwords, a few at a time: each takes a thread of the pool that also resolves host names. Rejects
 * at once if too many wait.
 */
export class Passwords {
  #running = 0;
  readonly #waiting: (() => void)[] = [];
  /** Compared with for unknown emails: the same work, and never equal. */
  readonly #unknown = phc(randomBytes(SALT_BYTES), randomBytes(HASH_BYTES));

  /** @returns the hash in PHC format. */
  async hash(password: string): Promise<string | ApiError> {
    const salt = randomBytes(SALT_BYTES);
    const hash = await this.#derive({
      ...COST,
      message: normalised(password),
      nonce: salt,
      tagLength: HASH_BYTES,
    });
    return hash instanceof ApiError ? hash : phc(salt, hash);
  }

  /** @param stored null: unknown email, which takes the same time. */
  async verify(stored: string | null, password: string): Promise<boolean | ApiError> {
    const [, memory, passes, parallelism, salt = '', expected = ''] = PHC.exec(stored ?? this.#unknown) ?? [];
    const known = Buffer.from(expected, 'base64');
    const hash = await this.#derive({
      memory: Number(memory),
      passes: Number(passes),
      parallelism: Number(parallelism),
      message: normalised(password),
      nonce: Buffer.from(salt, 'base64'),
      tagLength: known.length,
    });
    if (hash instanceof ApiError) return hash;
    return timingSafeEqual(hash, known) && stored !== null;
  }

  async #derive(parameters: Argon2Parameters): Promise<Buffer | ApiError> {
    if (this.#running >= PASSWORD_HASHES_AT_ONCE) {
      if (this.#waiting.length >= PASSWORD_HASHES_WAITING_MAX) return BUSY;
      // The finished hash hands over its slot.
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    } else this.#running++;
    try {
      return await new Promise<Buffer>((resolve, reject) => {
        argon2('argon2id', parameters, (error, hash) => (error ? reject(error) : resolve(hash)));
      });
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running--;
    }
  }
}

/** Keyboards encode the same letter differently. */
const normalised = (password: string): string => password.normalize('NFKC');

function phc(salt: Buffer, hash: Buffer): string {
  const spell = (bytes: Buffer): string => bytes.toString('base64').replace(/=+$/, '');
  const { memory, passes, parallelism } = COST;
  return `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${spell(salt)}$${spell(hash)}`;
}
