import type { ClientConfig, Pool } from 'pg';
import {
  awaitEnd,
  claimKey,
  countKept,
  endKey,
  findClaim,
  type FoundClaim,
  KEY_STATES,
  type KeyClaim,
  readReply,
  releaseKey,
  type ReplyRow,
  resolveClaim,
} from '#db/idempotency/keys.ts';
import { openPool } from '#db/postgres/connect.ts';
import {
  COUNTED_ACCOUNTS_MAX,
  KEPT_BYTES_PER_ACCOUNT_MAX,
  KEY_CONNECTIONS_MAX,
  KEY_IDLE_MS,
  KEYS_PER_ACCOUNT_MAX,
  RECOUNT_MS,
  UNWRITTEN_MAX,
  WRITE_RETRY_MS,
} from '#server/idempotency/bounds.ts';

type Counts = { keys: number; bytes: number; countedMs: number };
/** Bounds of what one account has, and of the accounts that are remembered. */
export type KeyBounds = { keysPerAccountMax: number; keptBytesPerAccountMax: number; accountsMax: number };
const BOUNDS: KeyBounds = {
  keysPerAccountMax: KEYS_PER_ACCOUNT_MAX,
  keptBytesPerAccountMax: KEPT_BYTES_PER_ACCOUNT_MAX,
  accountsMax: COUNTED_ACCOUNTS_MAX,
};
type Write = { run: (pool: Pool) => Promise<void>; written: () => void };

/** Idempotency keys and kept replies in the database. */
export class KeyStore {
  readonly #pool: Pool;
  readonly #onError: (error: unknown) => void;
  readonly #bounds: KeyBounds;
  readonly #counts = new Map<string, Counts>();
  /** Ends of requests that are not written yet. */
  readonly #unwritten = new Map<string, Write>();
  readonly #writing = new Set<Promise<void>>();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** @param config of the relay's role. */
  constructor(config: ClientConfig, onError: (error: unknown) => void, bounds = BOUNDS) {
    this.#pool = openPool({ ...config, max: KEY_CONNECTIONS_MAX, idleTimeoutMillis: KEY_IDLE_MS });
    this.#onError = onError;
    this.#bounds = bounds;
  }

  /**
   * Claims a key.
   * @returns the claim that it has already; null: it has this one now. `gone`: the other claim was ended
   * meanwhile, or this instance is closed.
   * @throws if the store is not available; then the claim is withdrawn, in case it became durable.
   */
  async claim(claim: KeyClaim): Promise<FoundClaim | 'gone' | null> {
    try {
      if (await claimKey(this.#pool, claim)) {
        const counts = this.#counts.get(claim.account);
        if (counts) counts.keys++;
        return null;
      }
    } catch (error) {
      this.release(claim.request, () => {});
      throw error;
    }
    return (await this.find(claim.digest)) ?? 'gone';
  }

  /** The claim of a key; that of a closed instance is resolved. @throws if the store is not available. */
  async find(digest: Buffer): Promise<FoundClaim | null> {
    const found = await findClaim(this.#pool, digest);
    if (found === null || !found.isClosed || found.state !== KEY_STATES.running) return found;
    await resolveClaim(this.#pool, found.request);
    return findClaim(this.#pool, digest);
  }

  /** Has the end of a request on another server announced. */
  awaitEnd(request: string): Promise<void> {
    return awaitEnd(this.#pool, request);
  }

  readReply(request: string): ReturnType<typeof readReply> {
    return readReply(this.#pool, request);
  }

  /** Whether an account may claim another key, by a count of some seconds ago and this server's own keys. */
  async hasRoomForKey(account: string): Promise<boolean> {
    return (await this.#count(account)).keys < this.#bounds.keysPerAccountMax;
  }

  /** Releases a key. It is retried until it succeeds. @param written called then. */
  release(request: string, written: () => void): void {
    this.#write(request, { run: (pool) => releaseKey(pool, request), written });
  }

  /** Ends the claim of a request. @param reply null, or beyond its account's bound: it is not kept. */
  end(account: string, request: string, reply: ReplyRow | null, written: () => void): void {
    const run = async (pool: Pool): Promise<void> => {
      if (reply === null) return endKey(pool, request, null);
      const counts = await this.#count(account);
      const bytes = counts.bytes + reply.sealed.length;
      if (bytes > this.#bounds.keptBytesPerAccountMax) return endKey(pool, request, null);
      counts.bytes = bytes;
      try {
        await endKey(pool, request, reply);
      } catch (error) {
        counts.bytes -= reply.sealed.length;
        throw error;
      }
    };
    this.#write(request, { run, written });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await Promise.all(this.#writing);
    await this.#pool.end();
  }

  async #count(account: string): Promise<Counts> {
    const known = this.#counts.get(account);
    const nowMs = performance.now();
    if (known && nowMs - known.countedMs < RECOUNT_MS) return known;
    const counted = {
      ...(await countKept(this.#pool, account, this.#bounds.keysPerAccountMax)),
      countedMs: nowMs,
    };
    this.#counts.delete(account);
    this.#counts.set(account, counted);
    const [oldest] = this.#counts.keys();
    if (this.#counts.size > this.#bounds.accountsMax && oldest !== undefined) this.#counts.delete(oldest);
    return counted;
  }

  /** Beyond the bound the claim stays as it is until its instance is closed. */
  #write(request: string, write: Write): void {
    if (this.#unwritten.size >= UNWRITTEN_MAX || this.#isClosed) return write.written();
    this.#unwritten.set(request, write);
    this.#attempt(request, write);
  }

  #attempt(request: string, write: Write): void {
    const attempt = this.#run(request, write).finally(() => this.#writing.delete(attempt));
    this.#writing.add(attempt);
  }

  async #run(request: string, { run, written }: Write): Promise<void> {
    try {
      await run(this.#pool);
      this.#unwritten.delete(request);
      written();
    } catch (error) {
      this.#onError(error);
      this.#timer ??= setTimeout(() => this.#retry(), WRITE_RETRY_MS).unref();
    }
  }

  #retry(): void {
    this.#timer = undefined;
    if (this.#isClosed) return;
    for (const [request, write] of this.#unwritten) this.#attempt(request, write);
  }
}
