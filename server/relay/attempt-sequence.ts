import type { EndReason } from '#db/events/events.ts';
import { type Attempt, ATTEMPTS_MAX } from '#db/events/upstream-events.ts';
import { NEW_ATTEMPT_WITHIN_MS, RETRY_PAUSE_MS, RETRY_WAIT_MAX_MS } from '#server/upstreams/bounds.ts';
import { type AttemptFailure, classifyFailure, causeCode, type RetryPolicy } from '#server/relay/failure.ts';
import { type Choice, choose } from '#server/upstreams/choose.ts';
import type { UpstreamConnectionPool } from '#server/upstreams/connection-pool.ts';
import type { Target } from '#server/upstreams/target.ts';

/** Where a call goes next, and how long it waits before. */
export type NextAttempt = Choice & { waitMs: number };

type Running = Choice & { startedMs: number; hasAnswered: boolean };

/**
 * The tries of one call, within one budget of time and number for all of them. Another upstream or
 * credential is tried at once; the same one again only as often as its terms say and after a pause,
 * since clients try again by themselves. Tells the health of each what it has seen.
 */
export class AttemptSequence {
  readonly #targets: readonly Target[];
  readonly #startedMs = performance.now();
  readonly #lines = new Set<UpstreamConnectionPool>();
  readonly #avoided = new Set<string>();
  readonly #told: Attempt[] = [];
  #retries = 0;
  #last: Choice | null = null;
  #lastMs = this.#startedMs;
  #running: Running | null = null;

  /** @param targets at least one. */
  constructor(targets: readonly Target[]) {
    this.#targets = targets;
  }

  /** Where the call goes first. */
  first(nowMs: number): Choice {
    return choose(this.#targets, this.#lines, this.#avoided, nowMs, Math.random()) as Choice;
  }

  /** Whether there would be another try, should this one fail in a way that others may not. */
  get hasMore(): boolean {
    if (this.#isOver(performance.now()) || this.#told.length + 1 >= ATTEMPTS_MAX) return false;
    return this.#targets.some(
      ({ upstream }) =>
        upstream.terms.retries > this.#retries || upstream.pools.some((line) => !this.#lines.has(line)),
    );
  }

  /** The upstream that the call was at last; null: at none. */
  get upstream(): string | null {
    return this.#last?.target.upstream.name ?? null;
  }

  /** Whether the upstream is to go on to its end when the client has left. */
  get isDrained(): boolean {
    return this.#running?.target.upstream.terms.on_client_disconnect === 'drain';
  }

  /** How many there were, of those that are over. */
  get count(): number {
    return this.#told.length;
  }

  /** How long what was before the last try has taken. */
  get beforeMs(): number {
    return this.#lastMs - this.#startedMs;
  }

  /** Each try, where there was more than one. */
  get told(): Attempt[] | undefined {
    return this.#told.length > 1 ? this.#told : undefined;
  }

  began(choice: Choice): void {
    this.#last = choice;
    this.#lastMs = performance.now();
    this.#running = { ...choice, startedMs: this.#lastMs, hasAnswered: false };
    this.#lines.add(choice.pool);
    choice.target.upstream.circuit.began(this.#lastMs);
    choice.pool.circuit.began(this.#lastMs);
  }

  /** The head of a good reply has come. */
  answered(afterMs: number): void {
    if (!this.#running) return;
    const { target, pool: line } = this.#running;
    this.#running.hasAnswered = true;
    target.answered(afterMs);
    target.upstream.circuit.answered();
    line.circuit.answered();
  }

  /**
   * The present try has failed before the client was told anything: puts that down, and tells the
   * health of its upstream.
   * @returns where the call goes now; null: nowhere, and the client is told.
   */
  failed(failure: AttemptFailure, nowMs: number): NextAttempt | null {
    const verdict = classifyFailure(failure);
    const { blames, openForMs: outForMs } = verdict;
    const running = this.#end(causeCode(failure.cause), nowMs);
    if (running && blames !== 'nobody') {
      const { circuit: health } = blames === 'upstream' ? running.target.upstream : running.pool;
      if (running.hasAnswered) health.interrupted(running.startedMs, nowMs, causeCode(failure.cause));
      else health.failed(running.startedMs, nowMs, causeCode(failure.cause), outForMs);
    }
    return this.#isOver(nowMs) ? null : this.#next(verdict, failure.retryAfterMs, nowMs);
  }

  #next(
    { retryElsewhere: isElsewhereBetter, retrySame: isLaterBetter, avoidUpstream: isOfUpstream }: RetryPolicy,
    retryAfterMs: number | null,
    nowMs: number,
  ): NextAttempt | null {
    const last = this.#last as Choice;
    const { upstream } = last.target;
    if (isOfUpstream) this.#avoided.add(upstream.name);
    const other = isElsewhereBetter
      ? choose(this.#targets, this.#lines, this.#avoided, nowMs, Math.random())
      : null;
    if (other) return { ...other, waitMs: 0 };
    if (!isLaterBetter || this.#retries >= upstream.terms.retries) return null;
    const pauseMs = RETRY_PAUSE_MS * 2 ** this.#retries * (0.5 + Math.random());
    const waitMs = Math.max(retryAfterMs ?? 0, pauseMs);
    if (waitMs > RETRY_WAIT_MAX_MS || this.#isOver(nowMs + waitMs)) return null;
    this.#retries++;
    return { ...last, waitMs };
  }

  #isOver(nowMs: number): boolean {
    return this.#told.length >= ATTEMPTS_MAX || nowMs - this.#startedMs > NEW_ATTEMPT_WITHIN_MS;
  }

  /** Puts the present try down as the one that the call ended with. */
  ended(reason: EndReason, nowMs: number): void {
    const running = this.#end(reason, nowMs);
    if (!running) return;
    const { target, pool: line, startedMs } = running;
    if (reason === 'completed') for (const { circuit: health } of [target.upstream, line]) health.succeeded();
    // Of a reply that the client has had a part of; what failed before was counted then.
    else if (reason === 'upstream_disconnected' || reason === 'timed_out')
      target.upstream.circuit.interrupted(startedMs, nowMs, reason);
  }

  #end(outcome: string, nowMs: number): Running | null {
    const running = this.#running;
    if (!running) return null;
    this.#running = null;
    const { target, pool: line, startedMs } = running;
    target.upstream.circuit.ended(startedMs);
    line.circuit.ended(startedMs);
    const one: Attempt = {
      upstream: target.upstream.name,
      outcome,
      duration_ms: Math.round(nowMs - startedMs),
    };
    if (line.credential !== null) one.credential = line.credential;
    this.#told.push(one);
    return running;
  }
}
