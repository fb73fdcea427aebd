import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { chat } from '../support/client.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { startRelay } from '../support/relay.ts';
import { hasTool } from '../support/telemetry/tools.ts';
import { refusedPort, startUpstream } from '../support/upstream/upstream.ts';

/** A real Prometheus, which reads OpenMetrics with exemplars. */

test.skipIf(!hasTool('prometheus'))('Prometheus stores the metrics with their exemplars', async () => {
  const directory = await makeTestDirectory();
  await using upstream = await startUpstream();
  await using relay = await startRelay({ upstreams: [upstream], env: { METRICS_PORT: '0' } });
  const reply = await chat({ port: relay.port, key: relay.key, body: { model: 'ok', messages: [] } });
  const port = await refusedPort();
  const config = path.join(directory, 'prometheus.yml');
  const targets = [{ targets: [`127.0.0.1:${relay.metricsPort}`] }];
  // YAML contains JSON.
  writeFileSync(
    config,
    JSON.stringify({
      global: { scrape_interval: '1s', scrape_timeout: '1s' },
      scrape_configs: [{ job_name: 'daybook', static_configs: targets }],
    }),
  );
  const prometheus = spawn(
    'prometheus',
    [
      `--config.file=${config}`,
      `--storage.tsdb.path=${path.join(directory, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--enable-feature=exemplar-storage',
    ],
    { stdio: 'ignore' },
  );
  const query = async (route: string, text: string): Promise<string> => {
    const url = `http://127.0.0.1:${port}/api/v1/${route}?query=${encodeURIComponent(text)}`;
    const answer = await fetch(`${url}&start=${Date.now() / 1000 - 300}&end=${Date.now() / 1000 + 60}`)
      .then((response) => response.text())
      .catch(() => '');
    return answer;
  };
  try {
    await expect.poll(() => query('query', 'up{job="daybook"}')).toContain(',"1"]');
    await expect.poll(() => query('query', 'daybook_requests_total')).toContain('"outcome":"completed"');
    expect(await query('query', 'daybook_requests_total')).toContain('"process":"server-1"');
    await expect
      .poll(() => query('query_exemplars', 'daybook_request_duration_seconds_bucket'))
      .toContain(reply.header('x-request-id'));
  } finally {
    prometheus.kill();
    await removeTestDirectory(directory);
  }
});
