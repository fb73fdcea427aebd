import type { Credential } from '#db/fold/upstream.ts';
import type { CredentialTestResult } from '#server/contract/upstreams.ts';
import { listModels } from '#server/upstreams/list-models.ts';
import type { UpstreamConnectionPool } from '#server/upstreams/connection-pool.ts';
import type { Upstream } from '#server/upstreams/upstream.ts';

/**
 * Asks an upstream for its models with each of its credentials, all at once. What gives them is good
 * again for calls, whatever was seen before: somebody has just mended it. Never throws.
 * @param credentials those of the log.
 */
export async function testUpstream(
  upstream: Upstream,
  credentials: readonly Credential[],
  timeoutMs: number,
): Promise<CredentialTestResult[]> {
  const labels = new Map(credentials.map(({ id, label }) => [id, label]));
  const closed = credentials.filter(({ id }) => !upstream.lines.some(({ credential }) => credential === id));
  return [
    ...(await Promise.all(
      upstream.lines.map((line) =>
        testLine(upstream, line, labels.get(line.credential ?? '') ?? '', timeoutMs),
      ),
    )),
    ...closed.map(({ id, label }): CredentialTestResult => ({
      credential: id,
      label,
      outcome: 'invalid',
      models: null,
      duration_ms: 0,
      error: 'It does not open on this server, whose diagnostics say why.',
    })),
  ];
}

async function testLine(
  upstream: Upstream,
  line: UpstreamConnectionPool,
  label: string,
  timeoutMs: number,
): Promise<CredentialTestResult> {
  const startedMs = performance.now();
  const { models, problem } = await listModels(line, timeoutMs);
  if (problem === null) {
    upstream.health.succeeded();
    line.health.succeeded();
  }
  return {
    credential: line.credential,
    label,
    outcome: problem === null ? 'valid' : problem.isUnsure ? 'unknown' : 'invalid',
    models: models?.length ?? null,
    duration_ms: Math.round(performance.now() - startedMs),
    error: problem?.line ?? null,
  };
}
