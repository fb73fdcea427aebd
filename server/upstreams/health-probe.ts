import { listModels, type ModelListResult } from '#server/upstreams/list-models.ts';
import {
  PROBE_CHECK_MS,
  PROBE_EVERY_MS,
  PROBE_TIMEOUT_MS,
  PROBES_AT_ONCE_MAX,
  WRONG_CREDENTIAL_MS,
} from '#server/upstreams/bounds.ts';
import type { CircuitBreaker } from '#server/upstreams/circuit-breaker.ts';
import type { UpstreamConnectionPool } from '#server/upstreams/connection-pool.ts';
import type { Upstream } from '#server/upstreams/upstream.ts';
import type { Upstreams } from '#server/upstreams/upstreams.ts';

/**
 * The problems that a list of models disproves. It does not show that an upstream answers calls slowly or
 * wrongly, or that a credential has no money left: there the circuit waits for the next call.
 */
const DISPROVED = new Set(['unreachable', 'status_401', 'status_502', 'status_503', 'status_504']);

/** The half-open circuit of an upstream or of a credential, and the connections that its probe uses. */
export type ProbeTarget = { pool: UpstreamConnectionPool; circuit: CircuitBreaker };

/** The half-open circuits without a trial call under way. */
export function dueProbes(upstreams: readonly Upstream[], nowMs: number): ProbeTarget[] {
  const isDue = (circuit: CircuitBreaker): boolean =>
    circuit.status(nowMs).state === 'half_open' && circuit.allows(nowMs);
  return upstreams
    .filter(({ terms }) => !terms.paused && terms.provider !== 'bridge')
    .flatMap(({ pools, circuit }) => {
      const best = pools.find((pool) => pool.circuit.status(nowMs).state === 'healthy') ?? pools[0];
      if (!best) return [];
      return [
        ...(isDue(circuit) ? [{ pool: best, circuit }] : []),
        ...pools.filter((pool) => isDue(pool.circuit)).map((pool) => ({ pool, circuit: pool.circuit })),
      ];
    });
}

/**
 * Applies the result of a probe: the circuit closes, opens again, or stays half-open because only a call
 * shows whether the upstream works. A list that is rejected or unreadable is no failure: calls may pass
 * without one.
 */
export function applyProbeResult(
  circuit: CircuitBreaker,
  { problem }: ModelListResult,
  beganMs: number,
  nowMs: number,
): void {
  const seen = circuit.status(nowMs).problem ?? '';
  const answers = problem === null || /^status_[34]/.test(problem.code);
  if (problem === null ? DISPROVED.has(seen) : answers && seen === 'unreachable') circuit.answered();
  else if (problem?.code === 'unreachable' || problem?.code === 'address_refused')
    circuit.failed(beganMs, nowMs, problem.code, PROBE_EVERY_MS);
  else if (problem?.code === 'status_401' && seen === 'status_401')
    circuit.failed(beganMs, nowMs, seen, WRONG_CREDENTIAL_MS);
}

/**
 * Probes half-open circuits by requesting the upstream's list of models, so that they close or open again
 * without risking a client's call. A call that comes first is the trial all the same.
 * @returns a function that stops the probes.
 */
export function startHealthProbes(upstreams: Pick<Upstreams, 'all'>): () => void {
  const probedMs = new WeakMap<CircuitBreaker, number>();
  let running = 0;

  async function probe({ pool, circuit }: ProbeTarget): Promise<void> {
    running++;
    const beganMs = performance.now();
    probedMs.set(circuit, beganMs);
    const result = await listModels(pool, PROBE_TIMEOUT_MS);
    running--;
    // A call that ended meanwhile has decided already.
    const nowMs = performance.now();
    if (circuit.status(nowMs).state === 'half_open') applyProbeResult(circuit, result, beganMs, nowMs);
  }

  const timer = setInterval(() => {
    const nowMs = performance.now();
    for (const target of dueProbes(upstreams.all, nowMs)) {
      if (running >= PROBES_AT_ONCE_MAX) return;
      if (nowMs - (probedMs.get(target.circuit) ?? Number.NEGATIVE_INFINITY) >= PROBE_EVERY_MS)
        void probe(target);
    }
  }, PROBE_CHECK_MS);
  timer.unref();
  return () => clearInterval(timer);
}
