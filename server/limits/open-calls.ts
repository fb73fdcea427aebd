import type { Key } from '#db/fold/key.ts';
import { isEnforced, type SubjectLimits } from '#db/limits/limits.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { CONCURRENT_MAX, RUNNING_MAX } from '#server/limits/bounds.ts';

/** Bytes that the open calls of each scope may hold in memory. */
export type BufferLimits = { process: number; account: number; key: number };

/** The open calls of one scope, and the bytes that they hold. */
class Scope {
  readonly kind: keyof BufferLimits;
  readonly id: string;
  /** The subject of its limits. */
  readonly subject: string;
  readonly bytesMax: number;
  calls = 0;
  /** Its calls, and the connections that hold memory between them. */
  holders = 0;
  bytes = 0;
  /** The call that may exceed this limit, and those of its account and key. */
  exempt: OpenCall | null = null;

  constructor(kind: keyof BufferLimits, id: string, bytesMax: number) {
    this.kind = kind;
    this.id = id;
    this.subject = `${kind}/${id}`;
    this.bytesMax = bytesMax;
  }
}

/**
 * The calls of this process from their headers to the last byte of their replies, and the memory that their
 * bodies and buffered replies hold: of the process, of each account and of each key.
 *
 * A body is only received where there is memory for it; otherwise the call is rejected before it is read. A
 * reply can't be rejected, because the provider has been paid for it. Where there is no memory for its
 * rest, its upstream is paused until other calls have returned theirs. So that calls can't wait for one
 * another for ever, the one that has waited longest may exceed the limit until it ends: one call for each
 * key, account and process, so that a client that doesn't read holds up none of another key. A call that may
 * exceed a limit may exceed the narrower ones as well. Otherwise two could hold what the other waits for.
 */
export class OpenCalls {
  readonly #limits: BufferLimits;
  readonly #process: Scope;
  readonly #scopes = { account: new Map<string, Scope>(), key: new Map<string, Scope>() };
  /** Calls whose replies are paused, in the order of their waiting. */
  readonly #waiting = new Map<OpenCall, () => void>();

  constructor(limits: BufferLimits) {
    this.#limits = limits;
    this.#process = new Scope('process', '', limits.process);
  }

  /** The number of open calls. */
  get count(): number {
    return this.#process.calls;
  }

  /** The bytes that they hold. */
  get bytes(): number {
    return this.#process.bytes;
  }

  /** Whether another call can be opened at all. */
  get isFull(): boolean {
    return this.count >= RUNNING_MAX;
  }

  /**
   * Opens a call when its headers have been received, unless {@link isFull}.
   * @param subjects the limits of its account and key. Their concurrent requests are counted here too: a call
   * whose body is still arriving has no reservation yet, but is one of them.
   */
  open(key: Key, subjects: readonly SubjectLimits[]): OpenCall | ApiError {
    const account = this.#scope('account', key.account);
    const own = this.#scope('key', key.id);
    const refusal = concurrencyError(own, subjects) ?? concurrencyError(account, subjects);
    return refusal ?? new OpenCall(this, [own, account, this.#process]);
  }

  /** Memory for the messages of a connection until their calls are open: it counts as no call. */
  openMemory(key: Key): OpenCall {
    const scopes = [this.#scope('key', key.id), this.#scope('account', key.account), this.#process];
    return new OpenCall(this, scopes, 0);
  }

  /** Counts a call that was opened. */
  add({ scopes, counts }: OpenCall): void {
    for (const scope of scopes) {
      scope.calls += counts;
      scope.holders++;
      if (scope.kind !== 'process') this.#scopes[scope.kind].set(scope.id, scope);
    }
  }

  /** Forgets a call that has ended, which held so many bytes; and a scope with its last call. */
  remove(call: OpenCall, bytes: number): void {
    this.#waiting.delete(call);
    for (const scope of call.scopes) {
      if (scope.exempt === call) scope.exempt = null;
      scope.calls -= call.counts;
      scope.holders--;
      scope.bytes -= bytes;
      if (scope.holders === 0) this.#forget(scope);
    }
    this.#resume();
  }

  /** Adds bytes to those that a call holds, or returns some. */
  charge({ scopes }: OpenCall, bytes: number): void {
    for (const scope of scopes) scope.bytes += bytes;
    if (bytes < 0) this.#resume();
  }

  /** Calls `resume` once, when there is memory for more of a call's reply. */
  wait(call: OpenCall, resume: () => void): void {
    this.#waiting.set(call, resume);
    this.#resume();
  }

  #resume(): void {
    for (const [call, resume] of this.#waiting) {
      const beyond = call.exceeded();
      if (beyond.some(({ exempt }) => exempt !== null)) continue;
      const widest = beyond.at(-1);
      if (widest) widest.exempt = call;
      this.#waiting.delete(call);
      resume();
    }
  }

  #scope(kind: 'account' | 'key', id: string): Scope {
    return this.#scopes[kind].get(id) ?? new Scope(kind, id, this.#limits[kind]);
  }

  #forget({ kind, id }: Scope): void {
    if (kind !== 'process') this.#scopes[kind].delete(id);
  }
}

/** A call from its headers to its end, with the memory that it holds. */
export class OpenCall {
  /** Its key, its account and the process, from the narrowest. */
  readonly scopes: readonly Scope[];
  /** As how many calls it counts: one, or none. */
  readonly counts: 0 | 1;
  readonly #calls: OpenCalls;
  #bodyBytes = 0;
  #replyBytes = 0;
  #recordBytes = 0;
  #waitingSinceMs: number | null = null;
  /** How long it waited before, when it got memory for a part of the rest only. */
  #waitedMs = 0;
  #isClosed = false;

  constructor(calls: OpenCalls, scopes: readonly Scope[], counts: 0 | 1 = 1) {
    this.scopes = scopes;
    this.counts = counts;
    this.#calls = calls;
    calls.add(this);
  }

  /** The total time that its reply has waited for memory; null: it does not wait. */
  waitMs(nowMs: number): number | null {
    return this.#waitingSinceMs === null ? null : this.#waitedMs + nowMs - this.#waitingSinceMs;
  }

  /** Holds `bytes` in all for the body; 0 returns them. @returns an error where a limit is exceeded. */
  holdBody(bytes: number): ApiError | null {
    if (this.#isClosed) return null;
    const more = bytes - this.#bodyBytes;
    // Every call comes here twice: a closure for each would be garbage.
    if (more > 0)
      for (const scope of this.scopes) if (scope.bytes + more > scope.bytesMax) return bufferError(scope);
    this.#bodyBytes = bytes;
    this.#calls.charge(this, more);
    return null;
  }

  /**
   * Holds `bytes` in all for the buffered reply; they have been received already.
   * @returns whether more may be received. If not, `resume` is called once, when that has changed.
   */
  holdReply(bytes: number, resume: () => void): boolean {
    if (this.#isClosed) return true;
    const more = bytes - this.#replyBytes;
    this.#replyBytes = bytes;
    this.#calls.charge(this, more);
    if (more <= 0 || this.scopes.every(({ bytes: held, bytesMax }) => held <= bytesMax)) return true;
    this.#waitingSinceMs = performance.now();
    this.#calls.wait(this, () => {
      this.#waitedMs = this.waitMs(performance.now()) ?? this.#waitedMs;
      this.#waitingSinceMs = null;
      resume();
    });
    return this.#waitingSinceMs === null;
  }

  /** Holds `bytes` in all for the record of the reply. @returns whether there is room; else it holds none. */
  holdRecord(bytes: number): boolean {
    if (this.#isClosed) return true;
    const more = bytes - this.#recordBytes;
    const hasRoom = more <= 0 || this.scopes.every((scope) => scope.bytes + more <= scope.bytesMax);
    const held = hasRoom ? bytes : 0;
    this.#calls.charge(this, held - this.#recordBytes);
    this.#recordBytes = held;
    return hasRoom;
  }

  /** The scopes whose limits are exceeded and that this call is not exempt from, from the narrowest. */
  exceeded(): Scope[] {
    const widestExempt = this.scopes.findLastIndex(({ exempt }) => exempt === this);
    return this.scopes.slice(widestExempt + 1).filter(({ bytes, bytesMax }) => bytes > bytesMax);
  }

  /** The call has ended, and holds nothing any more. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#waitingSinceMs = null;
    this.#calls.remove(this, this.#bodyBytes + this.#replyBytes + this.#recordBytes);
    this.#bodyBytes = this.#replyBytes = this.#recordBytes = 0;
  }
}

function concurrencyError(
  { kind, subject, calls }: Scope,
  subjects: readonly SubjectLimits[],
): ApiError | null {
  const cap = concurrencyCap(subject, subjects) ?? (kind === 'key' ? CONCURRENT_MAX : Infinity);
  if (calls < cap) return null;
  return new ApiError('rate_limit_exceeded', {
    message:
      `The ${kind}'s limit of ${cap} concurrent requests is reached: ` +
      `${calls} are being received or running. Wait for one to end.`,
    limit: {
      scope: kind,
      meter: 'concurrent',
      window: 'now',
      limit: cap,
      used: 0,
      reserved: calls,
      remaining: 0,
      resets_at: null,
    },
    ...(cap === 0 ? { shouldRetry: false } : {}),
  });
}

function concurrencyCap(of: string, subjects: readonly SubjectLimits[]): number | null {
  for (const { subject, limits } of subjects) {
    if (subject !== of) continue;
    for (const limit of limits) if (limit.meter === 'concurrent' && isEnforced(limit)) return limit.cap;
  }
  return null;
}

function bufferError({ kind, bytesMax }: Scope): ApiError {
  if (kind === 'process') return new ApiError('relay_buffer_full');
  return new ApiError('buffer_limit_exceeded', {
    message:
      `The requests and replies of this ${kind} that are held in memory have reached its limit of ` +
      `${Math.floor(bytesMax / 1024 / 1024)} MiB. Wait for some to end and try again.`,
  });
}
