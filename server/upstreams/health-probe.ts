import { type Answer, listModels } from '#server/upstreams/list-models.ts';
import {
  WRONG_CREDENTIAL_MS,
  PROBE_CHECK_MS,
  PROBE_EVERY_MS,
  PROBE_TIMEOUT_MS,
  PROBES_AT_ONCE_MAX,
} from '#server/upstreams/bounds.ts';
import type { CircuitBreaker } from '#server/upstreams/circuit-breaker.ts';
import type { UpstreamConnectionPool } from '#server/upstreams/connection-pool.ts';
import type { Upstream } from '#server/upstreams/upstream.ts';
import type { Upstreams } from '#server/upstreams/upstreams.ts';

/**
 * What a list of models disproves. That an upstream answers slowly or badly, or that a credential has
 * nothing left to spend, is not seen by it: there the next call stays the trial.
 */
const DISPROVED = new Set(['unreachable', 'status_401', 'status_502', 'status_503', 'status_504']);

/**
 * An upstream or a credential of it whose time out is over, by its health, and the line that it is asked by.
 */
export type Due = { line: UpstreamConnectionPool; health: CircuitBreaker };

/** Those that wait for somebody to try them, and that nobody tries at the moment. */
export function dueOf(upstreams: readonly Upstream[], nowMs: number): Due[] {
  const waits = (health: CircuitBreaker): boolean =>
    health.standing(nowMs).state === 'on_trial' && health.isOpen(nowMs);
  return upstreams
    .filter(({ terms }) => !terms.paused && terms.provider !== 'bridge')
    .flatMap(({ lines, health }) => {
      const best = lines.find((line) => line.health.standing(nowMs).state === 'good') ?? lines[0];
      if (!best) return [];
      return [
        ...(waits(health) ? [{ line: best, health }] : []),
        ...lines.filter((line) => waits(line.health)).map((line) => ({ line, health: line.health })),
      ];
    });
}

/**
 * Takes in what came of asking one: it is good again, stays out for a while, or only a call can tell.
 * A list that is refused or broken speaks against nobody: calls may pass without one.
 */
export function takeAnswer(
  health: CircuitBreaker,
  { problem }: Answer,
  beganMs: number,
  nowMs: number,
): void {
  const seen = health.standing(nowMs).problem ?? '';
  const answers = problem === null || /^status_[34]/.test(problem.word);
  if (problem === null ? DISPROVED.has(seen) : answers && seen === 'unreachable') health.answered();
  else if (problem?.word === 'unreachable' || problem?.word === 'address_refused')
    health.failed(beganMs, nowMs, problem.word, PROBE_EVERY_MS);
  else if (problem?.word === 'status_401' && seen === 'status_401')
    health.failed(beganMs, nowMs, seen, WRONG_CREDENTIAL_MS);
}

/**
 * Asks what was ejected for its models once its time out is over, so that it comes back, or stays out,
 * without risking somebody's call on it. A call is the trial still where one comes first.
 * @returns what ends it.
 */
export function startHealthProbes(upstreams: Pick<Upstreams, 'all'>): () => void {
  const askedMs = new WeakMap<CircuitBreaker, number>();
  let running = 0;

  async function ask({ line, health }: Due): Promise<void> {
    running++;
    const beganMs = performance.now();
    askedMs.set(health, beganMs);
    const answer = await listModels(line, PROBE_TIMEOUT_MS);
    running--;
    // A call may have come to an end meanwhile, and knows better.
    const nowMs = performance.now();
    if (health.standing(nowMs).state === 'on_trial') takeAnswer(health, answer, beganMs, nowMs);
  }

  const timer = setInterval(() => {
    const nowMs = performance.now();
    for (const due of dueOf(upstreams.all, nowMs)) {
      if (running >= PROBES_AT_ONCE_MAX) return;
      if (nowMs - (askedMs.get(due.health) ?? Number.NEGATIVE_INFINITY) >= PROBE_EVERY_MS) void ask(due);
    }
  }, PROBE_CHECK_MS);
  timer.unref();
  return () => clearInterval(timer);
}
