import type { EndReason } from '#db/events/endings.ts';
import { type Attempt, ATTEMPTS_MAX } from '#db/events/upstream-events.ts';
import { NEW_ATTEMPT_WITHIN_MS, RETRY_PAUSE_MS, RETRY_WAIT_MAX_MS } from '#server/upstreams/bounds.ts';
import { type AttemptFailure, classifyFailure, causeCode, type RetryPolicy } from '#server/relay/failure.ts';
import type { ReplyUsage } from '#server/relay/reply-usage.ts';
import { type Choice, choose } from '#server/upstreams/choose.ts';
import type { UpstreamConnectionPool } from '#server/upstreams/connection-pool.ts';
import type { RequestDiagnostics } from '#server/diagnostics/request-diagnostics.ts';
import type { BodyRest } from '#server/wire/read-body.ts';
import type { Target } from '#server/upstreams/target.ts';

/** The next attempt: its upstream and credential, and the pause before it. */
export type NextAttempt = Choice & { waitMs: number };

/** An attempt as the log has it, and the usage that its upstream may charge for; null: that of its call. */
export type EndedAttempt = { attempt: Attempt; consumed: ReplyUsage | null };

/** What binds a call to an upstream and credential. */
export type CallBinding = {
  /** Calls of the same name go to the same ones; null: to any. */
  affinity: string | null;
  /** The only credential that has what the call continues; null: any will do. */
  heldBy: UpstreamConnectionPool | null;
  /** A body that streams through; null: it can be sent again. */
  rest: Pick<BodyRest, 'isUnread'> | null;
};

const UNBOUND: CallBinding = { affinity: null, heldBy: null, rest: null };

type Diagnostics = Pick<RequestDiagnostics, 'attemptFailed' | 'attemptEnded'>;
type Running = Choice & { startedMs: number; hasReply: boolean };

/**
 * Decides on the attempts of one call, within one budget of time and number for all of them. Another upstream
 * or credential follows at once; the same one is retried only as often as its terms allow and after a
 * backoff, since clients retry by themselves. Reports each result to the circuit breakers of its upstream and
 * credential, and keeps a record for the log.
 */
export class AttemptSequence {
  readonly #targets: readonly Target[];
  readonly #affinity: string | null;
  readonly #rest: CallBinding['rest'];
  readonly #startedMs = performance.now();
  // Copied with each of few entries, since an array that grows reserves room for sixteen.
  #tried: readonly UpstreamConnectionPool[] = [];
  #avoided: readonly string[] = [];
  #records: readonly EndedAttempt[] = [];
  #retries = 0;
  #last: Choice | null = null;
  #lastMs = this.#startedMs;
  #running: Running | null = null;

  readonly #diagnostics: Diagnostics | undefined;

  /**
   * @param targets at least one.
   */
  constructor(
    targets: readonly Target[],
    diagnostics?: Diagnostics,
    { affinity, heldBy, rest }: CallBinding = UNBOUND,
  ) {
    this.#affinity = affinity;
    this.#rest = rest;
    if (heldBy !== null)
      this.#tried = targets.flatMap(({ upstream }) => upstream.pools.filter((pool) => pool !== heldBy));
    this.#diagnostics = diagnostics;
    this.#targets = targets;
  }

  /** The first upstream of the call. */
  first(nowMs: number): Choice {
    return this.#choose(nowMs) as Choice;
  }

  /** Whether another attempt would follow, if this one failed for a reason of its upstream's. */
  get canFallBack(): boolean {
    if (this.#isOver(performance.now()) || this.#records.length + 1 >= ATTEMPTS_MAX) return false;
    return this.#targets.some(
      ({ upstream }) =>
        upstream.terms.retries > this.#retries || upstream.pools.some((pool) => !this.#tried.includes(pool)),
    );
  }

  /** The upstream of the last attempt; null: there was no attempt. */
  get upstream(): string | null {
    return this.#last?.target.upstream.name ?? null;
  }

  /** The credential of the last attempt; null: it had none. */
  get credential(): string | null {
    return this.#last?.pool.credential ?? null;
  }

  /** Whether the reply is read to its end when the client has disconnected. */
  get isDrained(): boolean {
    return this.#running?.target.upstream.terms.on_client_disconnect === 'drain';
  }

  /** Number of attempts that have ended. */
  get count(): number {
    return this.#records.length;
  }

  /** Duration of everything before the last attempt. */
  get beforeMs(): number {
    return this.#lastMs - this.#startedMs;
  }

  /** A record of each attempt that has ended. */
  get records(): readonly EndedAttempt[] {
    return this.#records;
  }

  start(choice: Choice): void {
    this.#last = choice;
    this.#lastMs = performance.now();
    this.#running = { ...choice, startedMs: this.#lastMs, hasReply: false };
    this.#tried = [...this.#tried, choice.pool];
    choice.target.upstream.circuit.began(this.#lastMs);
    choice.pool.circuit.began(this.#lastMs);
  }

  /** The head of a successful reply was received. */
  replyStarted(afterMs: number): void {
    if (!this.#running) return;
    const { target, pool } = this.#running;
    this.#running.hasReply = true;
    target.answered(afterMs);
    target.upstream.circuit.answered();
    pool.circuit.answered();
  }

  /**
   * The running attempt has failed before the client received anything.
   * @returns the attempt that follows; null: none, and the client receives the error.
   */
  failed(failure: AttemptFailure, nowMs: number, consumed: ReplyUsage): NextAttempt | null {
    const policy = classifyFailure(failure);
    const { blames, openForMs } = policy;
    const running = this.#end(causeCode(failure.cause), nowMs, consumed);
    if (running && blames !== null) {
      const { circuit } = blames === 'upstream' ? running.target.upstream : running.pool;
      if (running.hasReply) circuit.interrupted(running.startedMs, nowMs, causeCode(failure.cause));
      else circuit.failed(running.startedMs, nowMs, causeCode(failure.cause), openForMs);
    }
    const next = this.#isOver(nowMs) ? null : this.#next(policy, failure.retryAfterMs, nowMs);
    if (running)
      this.#diagnostics?.attemptFailed({
        upstream: running.target.upstream.name,
        credential: running.pool.credential,
        cause: causeCode(failure.cause),
        attempt: this.#records.length,
        durationMs: nowMs - running.startedMs,
        next: next && { upstream: next.target.upstream.name, waitMs: next.waitMs },
        isClients: blames === null && next === null,
      });
    return next;
  }

  #choose(nowMs: number): Choice | null {
    return choose(this.#targets, this.#tried, this.#avoided, nowMs, this.#affinity ?? Math.random());
  }

  #next(
    { retryElsewhere, retrySame, avoidUpstream }: RetryPolicy,
    retryAfterMs: number | null,
    nowMs: number,
  ): NextAttempt | null {
    const last = this.#last as Choice;
    const { upstream } = last.target;
    if (avoidUpstream) this.#avoided = [...this.#avoided, upstream.name];
    const other = retryElsewhere ? this.#choose(nowMs) : null;
    if (other) return { ...other, waitMs: 0 };
    if (!retrySame || this.#retries >= upstream.terms.retries) return null;
    const pauseMs = RETRY_PAUSE_MS * 2 ** this.#retries * (0.5 + Math.random());
    const waitMs = Math.max(retryAfterMs ?? 0, pauseMs);
    if (waitMs > RETRY_WAIT_MAX_MS || this.#isOver(nowMs + waitMs)) return null;
    this.#retries++;
    return { ...last, waitMs };
  }

  #isOver(nowMs: number): boolean {
    if (this.#rest?.isUnread === false) return true;
    return this.#records.length >= ATTEMPTS_MAX || nowMs - this.#startedMs > NEW_ATTEMPT_WITHIN_MS;
  }

  /**
   * The call ends with the running attempt, if there is one.
   * @param consumed absent: the usage of the call.
   */
  end(reason: EndReason, nowMs: number, consumed: ReplyUsage | null = null): void {
    const running = this.#end(reason, nowMs, consumed);
    if (!running) return;
    const { target, pool, startedMs } = running;
    if (reason === 'completed') for (const { circuit } of [target.upstream, pool]) circuit.succeeded();
    // The reply broke off in the middle; an attempt that failed earlier was counted then.
    else if (reason === 'upstream_disconnected' || reason === 'timed_out')
      target.upstream.circuit.interrupted(startedMs, nowMs, reason);
  }

  #end(outcome: string, nowMs: number, consumed: ReplyUsage | null): Running | null {
    const running = this.#running;
    if (!running) return null;
    this.#running = null;
    const { target, pool, startedMs } = running;
    target.upstream.circuit.ended(startedMs);
    pool.circuit.ended(startedMs);
    const one: Attempt = {
      upstream: target.upstream.name,
      outcome,
      duration_ms: Math.round(nowMs - startedMs),
    };
    if (pool.credential !== null) one.credential = pool.credential;
    if (target.model !== null) one.upstream_model = target.model;
    this.#records = [...this.#records, { attempt: one, consumed }];
    this.#diagnostics?.attemptEnded(one);
    return running;
  }
}
