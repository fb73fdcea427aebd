import { CLOSED_SESSIONS_MAX } from '#server/feed/bounds.ts';
import type { SignedIn } from '#server/sign-in/signed-in.ts';
import { CLOSE_CODES } from '#server/contract/live-protocol.ts';
import { holderOf } from '#server/read/api.ts';
import { type Scope, scopeOf } from '#server/read/scope.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import { checkKey, checkSecret } from '#server/access/authenticate.ts';
import { authorize } from '#server/access/authorize.ts';
import type { RequestContext } from '#server/access/request-context.ts';

/** Why a viewer's connection is closed. */
export type CloseReason = { code: number; reason: string };

/** The permission of a viewer: by a key, or by a session. */
export type ViewerPermission = {
  /** The key of its concurrent viewers: `key/<id>` or `member/<id>`. */
  readonly holder: string;
  /** Whether the viewer is a signed-in member rather than a key. */
  readonly isSignedIn: boolean;
  /** Why it has ended; null: it is valid. Called often. */
  ended(): CloseReason | null;
  /** Whether changes of these accounts may affect it. */
  concerns(accounts: ReadonlySet<string>): boolean;
  /** Its scope after such a change, or why it has ended. */
  evaluate(): Scope | CloseReason;
};

/**
 * Permission by a secret, which may be one that is being rotated out, or a short-lived one.
 * `untilMs`: when that ends; infinite for others.
 */
export class KeyPermission implements ViewerPermission {
  readonly isSignedIn = false;
  readonly #readModel: ReadModel;
  readonly #key: string;
  readonly #digest: string;
  readonly #untilMs: number;
  readonly #caller: RequestContext;

  constructor(
    readModel: ReadModel,
    {
      key,
      digest,
      untilMs,
      caller,
    }: { key: string; digest: string; untilMs: number; caller: RequestContext },
  ) {
    this.#readModel = readModel;
    this.#key = key;
    this.#digest = digest;
    this.#untilMs = untilMs;
    this.#caller = caller;
  }

  get holder(): string {
    return `key/${this.#key}`;
  }

  ended(): CloseReason | null {
    const key = this.#readModel.key(this.#key);
    const nowMs = this.#readModel.nowMs();
    if (this.#untilMs <= nowMs) return { code: CLOSE_CODES.not_authenticated, reason: 'api_key_expired' };
    const refusal =
      key && (key.workload === null ? checkSecret(key, this.#digest, nowMs) : checkKey(key, nowMs));
    return refusal ? { code: CLOSE_CODES.not_authenticated, reason: refusal.code } : null;
  }

  concerns(accounts: ReadonlySet<string>): boolean {
    const key = this.#readModel.key(this.#key);
    return key !== undefined && accounts.has(key.account);
  }

  evaluate(): Scope | CloseReason {
    const ended = this.ended();
    const key = this.#readModel.key(this.#key);
    if (ended || !key) return ended ?? { code: CLOSE_CODES.not_authenticated, reason: 'invalid_api_key' };
    const refusal = authorize(key, this.#caller, this.#readModel);
    return refusal ? { code: CLOSE_CODES.not_permitted, reason: refusal.code } : scopeOf(key);
  }
}

/** Recently closed sessions: a session can close between its lookup and the first check of its viewer. */
export class ClosedSessions {
  readonly #ids = new Set<string>();

  add(session: string): void {
    this.#ids.add(session);
    const [oldest] = this.#ids;
    if (this.#ids.size > CLOSED_SESSIONS_MAX && oldest !== undefined) this.#ids.delete(oldest);
  }

  has(session: string): boolean {
    return this.#ids.has(session);
  }
}

/** Permission by a session, in the role at the time of connecting. */
export class SessionPermission implements ViewerPermission {
  readonly isSignedIn = true;
  readonly holder: string;
  readonly #readModel: ReadModel;
  readonly #closed: ClosedSessions;
  readonly #who: SignedIn;
  readonly #scope: Scope;

  constructor(readModel: ReadModel, closed: ClosedSessions, who: SignedIn, scope: Scope) {
    this.holder = holderOf(who);
    this.#readModel = readModel;
    this.#closed = closed;
    this.#who = who;
    this.#scope = scope;
  }

  ended(): CloseReason | null {
    const { session, member } = this.#who;
    const now = this.#readModel.member(member.id);
    if (this.#closed.has(session) || now?.state !== 'active')
      return { code: CLOSE_CODES.not_authenticated, reason: 'unauthenticated' };
    // Another role sees a different page: the client reconnects and reloads it.
    return now.role === member.role ? null : { code: CLOSE_CODES.going_away, reason: 'the role has changed' };
  }

  /** Changes of its account don't affect its scope. */
  concerns(): boolean {
    return false;
  }

  evaluate(): Scope | CloseReason {
    return this.ended() ?? this.#scope;
  }
}
