import type { Credential } from '#db/fold/upstream.ts';
import type { CredentialTestResult } from '#server/contract/upstreams.ts';
import { listModels } from '#server/upstreams/list-models.ts';
import type { UpstreamConnectionPool } from '#server/upstreams/connection-pool.ts';
import type { Upstream } from '#server/upstreams/upstream.ts';

/**
 * Requests an upstream's list of models with each of its credentials at once. A credential that gets it
 * closes its circuit, whatever failed before: an operator has just repaired it. Never throws.
 * @param credentials those in the log, active ones and ones that could not be opened.
 */
export async function testUpstream(
  upstream: Upstream,
  credentials: readonly Credential[],
  timeoutMs: number,
): Promise<CredentialTestResult[]> {
  const labels = new Map(credentials.map(({ id, label }) => [id, label]));
  const unopened = credentials.filter(
    ({ id }) => !upstream.pools.some(({ credential }) => credential === id),
  );
  return [
    ...(await Promise.all(
      upstream.pools.map((pool) =>
        testPool(upstream, pool, labels.get(pool.credential ?? '') ?? '', timeoutMs),
      ),
    )),
    ...unopened.map(({ id, label }): CredentialTestResult => ({
      credential: id,
      label,
      outcome: 'invalid',
      models: null,
      duration_ms: 0,
      error: 'This server could not decrypt it. Run "daybook doctor" for the reason.',
    })),
  ];
}

async function testPool(
  upstream: Upstream,
  pool: UpstreamConnectionPool,
  label: string,
  timeoutMs: number,
): Promise<CredentialTestResult> {
  const startedMs = performance.now();
  const { models, problem } = await listModels(pool, timeoutMs);
  if (problem === null) {
    upstream.circuit.succeeded();
    pool.circuit.succeeded();
  }
  return {
    credential: pool.credential,
    label,
    outcome: problem === null ? 'valid' : problem.isUnsure ? 'unknown' : 'invalid',
    models: models?.length ?? null,
    duration_ms: Math.round(performance.now() - startedMs),
    error: problem?.message ?? null,
  };
}
