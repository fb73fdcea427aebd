import { performance } from 'node:perf_hooks';
import { expect, test } from 'vitest';
import { UpstreamTerms } from '#db/events/upstream-events.ts';
import { guardedConnector } from '#server/upstreams/connect.ts';
import { startHealthProbes } from '#server/upstreams/health-probe.ts';
import { openUpstream, type Upstream } from '#server/upstreams/upstream.ts';
import { until } from '../support/relay.ts';
import { startUpstream } from '../support/upstream/upstream.ts';

/** Upstreams that were excluded, asked for their models over real sockets. */

function open(baseUrl: string, more: Partial<UpstreamTerms> = {}): Upstream {
  const terms = UpstreamTerms.parse({ provider: 'openai', base_url: baseUrl, network: 'private', ...more });
  return openUpstream(
    { name: 'one', terms, credentials: ['sk-good', 'sk-bad'].map((secret) => ({ id: secret, secret })) },
    ({ network }) => guardedConnector({ network, timeoutMs: 2_000 }),
  );
}

const stateOf = (health: Upstream['circuit']): string => health.status(performance.now()).state;
const eject = (health: Upstream['circuit'], problem: string): void =>
  health.failed(performance.now(), performance.now(), problem, 1);

test('health probes close circuits, except of rejected credentials and paused upstreams', async () => {
  await using remote = await startUpstream({ apiKey: 'sk-good' });
  const [back, resting] = [open(remote.baseUrl), open(remote.baseUrl, { paused: true })];
  const [valid, invalid] = back.pools;
  for (const health of [back.circuit, resting.circuit]) eject(health, 'unreachable');
  for (const line of back.pools) eject(line.circuit, 'status_401');
  const end = startHealthProbes({ all: [back, resting] });
  try {
    await until(
      () => [back.circuit, valid?.circuit, invalid?.circuit].map((health) => health && stateOf(health)),
      (states) => states.join() === 'healthy,healthy,open',
      'everything that is there to be valid again',
    );
    expect(stateOf(resting.circuit)).toBe('half_open');
    expect(remote.ledger.attempts).toEqual([]);
    // No one is asked again before his time.
    expect(remote.ledger.visits).toHaveLength(3);
  } finally {
    end();
    await Promise.all([...back.pools, ...resting.pools].map((line) => line.destroy()));
  }
});
