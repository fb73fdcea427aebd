import type { ClientConfig } from 'pg';
import type { AccountKey } from '#db/attribution/keys.ts';
import { KEY_STATES, type FoundClaim } from '#db/idempotency/keys.ts';
import { openReply, sealReply } from '#db/idempotency/sealed-reply.ts';
import {
  FIRST_LOOK_MS,
  JOINED_MAX,
  KEPT_HEAD_BYTES_MAX,
  KEPT_REPLY_BYTES_MAX,
  LOOK_EVERY_MS,
} from '#server/idempotency/bounds.ts';
import type { KeyIdentity } from '#server/idempotency/key-header.ts';
import type { KeyState } from '#server/idempotency/key-state.ts';
import { KeyedCall, type KeyedRequest } from '#server/idempotency/keyed-call.ts';
import { KeyStore } from '#server/idempotency/key-store.ts';
import { ReplyRecord } from '#server/idempotency/reply-record.ts';

/** Opens the key of an account that its replies are sealed under; null: it is not available. */
type KeyOf = (account: string) => AccountKey | null | Promise<AccountKey | null>;

/** A key's state, and whether this server has the claim. */
export type Claimed = { call: KeyedCall } | { state: KeyState };

/** The idempotency keys that this process has claimed, and the shared ones in the database. */
export class Idempotency {
  readonly #store: KeyStore;
  readonly #keyOf: KeyOf;
  readonly #onError: (error: unknown) => void;
  /** The requests of this process that hold a key, by its digest. */
  readonly #calls = new Map<string, KeyedCall>();
  /** Repeats that wait for requests on other servers. */
  readonly #waiting = new Map<string, Set<() => void>>();
  readonly #sealing = new Set<Promise<void>>();

  /** @param config of the relay's role. */
  constructor(config: ClientConfig, keyOf: KeyOf, onError: (error: unknown) => void) {
    this.#store = new KeyStore(config, onError);
    this.#keyOf = keyOf;
    this.#onError = onError;
  }

  /** The request of this process that holds a key. */
  running({ digest }: KeyIdentity): KeyedCall | undefined {
    return this.#calls.get(digest.toString('hex'));
  }

  /** Whether the account may claim another key. @throws if the store is not available. */
  hasRoomForKey(account: string): Promise<boolean> {
    return this.#store.hasRoomForKey(account);
  }

  /**
   * Claims a key for a request. The claim is durable when this returns.
   * @param position the newest that the instance knows of the log.
   * @returns the call, or the key's state where it is claimed.
   * @throws if the store is not available.
   */
  async claim(
    { digest, fingerprint }: KeyIdentity,
    of: Omit<KeyedRequest, 'digest' | 'fingerprint'>,
    position: number,
  ): Promise<Claimed> {
    const { account, request, instance } = of;
    const found = await this.#store.claim({ digest, account, fingerprint, request, instance, position });
    if (found !== null) return { state: stateOf(found) };
    const name = digest.toString('hex');
    const call = new KeyedCall(
      { ...of, digest: name, fingerprint: fingerprint.toString('hex') },
      (ended, isReleased) => this.#conclude(ended, isReleased),
    );
    this.#calls.set(name, call);
    return { call };
  }

  /** The state of a key, which stays as it is. @throws if the store is not available. */
  async find({ digest }: KeyIdentity): Promise<KeyState> {
    return stateOf((await this.#store.find(digest)) ?? 'gone');
  }

  /** A request has ended on another server. */
  heard(request: string): void {
    for (const wake of this.#waiting.get(request) ?? []) wake();
  }

  /** Whether as many repeats wait here for a request on another server as may. */
  isFull(request: string): boolean {
    return (this.#waiting.get(request)?.size ?? 0) >= JOINED_MAX;
  }

  /** Resolves when a request on another server may have ended: at its announcement, or after some time. */
  async whenEnded(request: string, isFirst: boolean, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiting = this.#waiting.get(request) ?? new Set();
    this.#waiting.set(request, waiting);
    waiting.add(resolve);
    const timer = setTimeout(resolve, isFirst ? FIRST_LOOK_MS : LOOK_EVERY_MS);
    signal.addEventListener('abort', () => resolve(), { once: true });
    try {
      // It may have ended meanwhile, which the next look finds.
      await this.#store.awaitEnd(request);
      if (!signal.aborted) await promise;
    } finally {
      clearTimeout(timer);
      waiting.delete(resolve);
      if (waiting.size === 0) this.#waiting.delete(request);
    }
  }

  /** The kept reply to a request; null: it can't be opened, or was deleted. @throws if the store is away. */
  async keptReply(account: string, request: string): Promise<ReplyRecord | null> {
    const row = await this.#store.readReply(request);
    const key = await this.#keyOf(account);
    if (row === null || key === null || key.generation !== row.generation) return null;
    try {
      const bytesMax = KEPT_REPLY_BYTES_MAX + KEPT_HEAD_BYTES_MAX;
      return ReplyRecord.of(await openReply(key, request, row.sealed, bytesMax));
    } catch (error) {
      this.#onError(error);
      return null;
    }
  }

  /** This process goes on as another instance: the claims of the one before are left to the log. */
  forgetFenced(instance: number): void {
    for (const [digest, { of }] of this.#calls) if (of.instance !== instance) this.#calls.delete(digest);
  }

  async close(): Promise<void> {
    await Promise.all(this.#sealing);
    await this.#store.close();
  }

  #conclude(call: KeyedCall, isReleased: boolean): void {
    const { account, request, keeps } = call.of;
    if (isReleased)
      return this.#store.release(request, () => {
        this.#forget(call);
        call.record.release();
      });
    const forget = (): void => this.#forget(call);
    const reply = keeps ? call.record.whole() : null;
    if (reply === null) return this.#store.end(account, request, null, forget);
    const sealing = this.#seal(call, reply)
      .then((sealed) => this.#store.end(account, request, sealed, forget))
      .finally(() => this.#sealing.delete(sealing));
    this.#sealing.add(sealing);
  }

  /** @returns null: the account's key is not available, so that the reply can't be kept. */
  async #seal(
    { of: { account, request, attribution } }: KeyedCall,
    reply: Parameters<typeof sealReply>[2],
  ): ReturnType<typeof sealedRow> {
    try {
      const key = await this.#keyOf(account);
      return key && (await sealedRow(key, request, reply, attribution));
    } catch (error) {
      this.#onError(error);
      return null;
    }
  }

  #forget({ of }: KeyedCall): void {
    if (this.#calls.get(of.digest)?.of.request === of.request) this.#calls.delete(of.digest);
  }
}

async function sealedRow(
  key: AccountKey,
  request: string,
  reply: Parameters<typeof sealReply>[2],
  { end_user, session, tags = [] }: KeyedRequest['attribution'],
): Promise<{ request: string; generation: number; pseudonyms: string[]; sealed: Buffer } | null> {
  const pseudonyms = [end_user, session, ...tags].filter((each) => each !== undefined);
  return { request, generation: key.generation, pseudonyms, sealed: await sealReply(key, request, reply) };
}

/** The state that a claim stands for. */
function stateOf(found: FoundClaim | 'gone'): KeyState {
  if (found === 'gone') return { kind: 'free' };
  const { request, hasReply } = found;
  const fingerprint = found.fingerprint.toString('hex');
  switch (found.state) {
    case KEY_STATES.ended:
      return { kind: 'ended', request, fingerprint, hasReply };
    case KEY_STATES.lost:
      return { kind: 'lost', request, fingerprint };
    default:
      return { kind: 'running', request, fingerprint };
  }
}
