import { type ChildProcess, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { chat } from '../support/client.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { startRelay } from '../support/relay.ts';
import { hasTool } from '../support/telemetry/tools.ts';
import { refusedPort, startUpstream } from '../support/upstream/upstream.ts';

/** A real collector: any distribution with the receiver `otlp` and the exporter `debug`. */

test.skipIf(!hasTool('otelcol'))('the OpenTelemetry Collector receives the spans of a call', async () => {
  const directory = await makeTestDirectory();
  const port = await refusedPort();
  const config = path.join(directory, 'collector.yaml');
  // YAML contains JSON.
  const pipeline = { receivers: ['otlp'], exporters: ['debug'] };
  writeFileSync(
    config,
    JSON.stringify({
      receivers: { otlp: { protocols: { http: { endpoint: `127.0.0.1:${port}` } } } },
      exporters: { debug: { verbosity: 'detailed' } },
      service: { telemetry: { metrics: { level: 'none' } }, pipelines: { traces: pipeline } },
    }),
  );
  const collector = spawn('otelcol', ['--config', config], { stdio: ['ignore', 'pipe', 'pipe'] });
  const output = outputOf(collector);
  try {
    await expect.poll(output).toContain('Everything is ready');
    await using upstream = await startUpstream();
    await using relay = await startRelay({
      upstreams: [upstream],
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`, OTEL_BSP_SCHEDULE_DELAY: '20' },
    });
    const reply = await chat({ port: relay.port, key: relay.key, body: { model: 'ok', messages: [] } });
    await expect.poll(output).toContain(`daybook.request.id: Str(${reply.header('x-request-id')})`);
    expect(output()).toMatch(/Name +: POST \/v1\/chat\/completions\n +Kind +: Server/);
    expect(output()).toMatch(/Name +: chat ok\n +Kind +: Client/);
    expect(output()).toMatch(/gen_ai\.usage\.output_tokens: Int\(\d+\)/);
    expect(output()).toMatch(/daybook\.log\.settled_position: Int\(\d+\)/);
  } finally {
    collector.kill();
    await removeTestDirectory(directory);
  }
});

function outputOf({ stdout, stderr }: ChildProcess): () => string {
  let text = '';
  for (const stream of [stdout, stderr])
    stream?.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
  return () => text;
}
