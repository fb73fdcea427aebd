import * as conventions from '@opentelemetry/semantic-conventions/incubating';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { chat } from '../support/client.ts';
import { type TestRelay, startRelay } from '../support/relay.ts';
import {
  type OtlpReceiver,
  type ReceivedSpan,
  startOtlpReceiver,
} from '../support/telemetry/otlp-receiver.ts';
import { scrape, sumOf } from '../support/telemetry/scrape.ts';
import { refusedPort, type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';
const PROMPT = 'canary-prompt-7d1f';

let upstream: ScriptedUpstream;
let receiver: OtlpReceiver;
let relay: TestRelay;

beforeAll(async () => {
  upstream = await startUpstream();
  receiver = await startOtlpReceiver();
  relay = await startRelay({
    upstreams: [{ baseUrl: upstream.baseUrl, name: 'scripted' }],
    env: {
      METRICS_PORT: '0',
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20collector-key',
      OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
      OTEL_BSP_SCHEDULE_DELAY: '20',
    },
  });
});

beforeEach(() => {
  receiver.spans.length = 0;
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await receiver?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const call = (model: string, headers: Record<string, string> = {}, key = relay.key) =>
  chat({
    port: relay.port,
    key,
    body: { model, user: 'anna', stream: true, messages: [{ role: 'user', content: PROMPT }] },
    headers,
  });

/** The spans of a call, once all have been received. */
async function spansOf(request: string | null): Promise<{ server: ReceivedSpan; attempts: ReceivedSpan[] }> {
  const isServer = (span: ReceivedSpan): boolean => span.attributes['daybook.request.id'] === request;
  await expect.poll(() => receiver.spans.some(isServer)).toBe(true);
  const server = receiver.spans.find(isServer) as ReceivedSpan;
  return { server, attempts: receiver.spans.filter(({ parentSpanId }) => parentSpanId === server.spanId) };
}

test('a sampled call is a span of the server and one per attempt, in the trace of its client', async () => {
  const sent = { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: 'vendor=1' };
  const reply = await call('s:tokens=3,usage=always', sent);
  const request = reply.header('x-request-id');
  const { server, attempts } = await spansOf(request);
  const log = await relay.readLog();
  const [accepted, settled] = log.filter(({ event }) => 'request' in event && event.request === request);
  if (accepted?.event.type !== 'request.accepted') throw new Error('the call is not in the log');
  expect(server).toMatchObject({
    ...{ traceId: TRACE, parentSpanId: PARENT, traceState: 'vendor=1', kind: 2, status: {} },
    name: 'POST /v1/chat/completions',
    attributes: {
      'http.response.status_code': 200,
      'daybook.account.id': accepted.event.account,
      'daybook.log.accepted_position': accepted.position,
      'daybook.log.settled_position': settled?.position,
    },
  });
  expect(attempts).toHaveLength(1);
  expect(attempts[0]).toMatchObject({
    ...{ traceId: TRACE, kind: 3, name: 'chat s:tokens=3,usage=always', status: {} },
    attributes: {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'openai',
      'gen_ai.request.model': 's:tokens=3,usage=always',
      'gen_ai.response.finish_reasons': ['stop'],
      'gen_ai.usage.output_tokens': 3,
      'server.address': '127.0.0.1',
    },
  });
  const [attempt] = upstream.attemptsOf('anna').slice(-1);
  const received = Object.fromEntries(
    (attempt?.headers ?? []).map(([name, value]) => [name.toLowerCase(), value]),
  );
  expect(received).toMatchObject({
    traceparent: `00-${TRACE}-${attempts[0]?.spanId}-01`,
    tracestate: 'vendor=1',
  });
  expect(receiver.headers[0]).toMatchObject({
    ...{ authorization: 'Bearer collector-key', 'content-encoding': 'gzip' },
  });
  expect(receiver.resources[0]).toEqual({
    ...{ 'service.name': 'daybook', 'deployment.environment.name': 'test' },
  });
});

test('a trace id is an exemplar of the histograms', async () => {
  const { server } = await spansOf((await call('ok')).header('x-request-id'));
  const values = await scrape(relay.metricsPort ?? 0);
  const traces = values
    .filter(({ name }) => name === 'daybook_request_duration_seconds_bucket')
    .map(({ exemplar }) => exemplar?.['trace_id']);
  expect(traces).toContain(server.traceId);
});

test('the decision of the client not to sample is followed, and its context passed on', async () => {
  const traceparent = `00-${TRACE}-${PARENT}-00`;
  const ignored = (await call('ok', { traceparent })).header('x-request-id');
  await spansOf((await call('ok')).header('x-request-id'));
  expect(receiver.spans.map(({ attributes }) => attributes['daybook.request.id'])).not.toContain(ignored);
});

test('failures are errors of their spans: rejected calls, failed attempts', async () => {
  const wrong = await spansOf((await call('ok', {}, 'dbk_wrong')).header('x-request-id'));
  expect(wrong.server.attributes).toMatchObject({
    ...{ 'http.response.status_code': 401, 'error.type': 'invalid_api_key' },
  });
  expect(wrong.server.status).toEqual({});
  expect(wrong.attempts).toEqual([]);
  const failed = await spansOf((await call('s:status=503')).header('x-request-id'));
  expect(failed.server.status).toEqual({ code: 2 });
  expect(failed.attempts[0]).toMatchObject({
    ...{ status: { code: 2 }, attributes: { 'error.type': 'status_503', 'http.response.status_code': 503 } },
  });
});

test('attributes have names of the conventions, and none has a prompt, a reply or a key', async () => {
  const reply = await call('s:tokens=5');
  await spansOf(reply.header('x-request-id'));
  expect(receiver.problems).toEqual([]);
  const deprecated = ['gen_ai.system', 'gen_ai.usage.prompt_tokens', 'gen_ai.usage.completion_tokens'];
  const known = new Set(Object.values(conventions).filter((each) => !deprecated.includes(String(each))));
  const names = new Set(receiver.spans.flatMap(({ attributes }) => Object.keys(attributes)));
  expect(names.size).toBeGreaterThan(10);
  expect([...names].filter((name) => !known.has(name as never) && !name.startsWith('daybook.'))).toEqual([]);
  const text = receiver.bodies.join();
  for (const secret of [PROMPT, relay.key, 'anna', 'collector-key']) expect(text).not.toContain(secret);
});

test('a collector that is away or refuses costs calls nothing, and dropped spans are counted', async () => {
  const env = { METRICS_PORT: '0', OTEL_BSP_MAX_QUEUE_SIZE: '4', OTEL_BSP_SCHEDULE_DELAY: '20' };
  await using refusing = await startOtlpReceiver();
  refusing.answer = { status: 400, body: '' };
  for (const url of [`http://127.0.0.1:${await refusedPort()}`, refusing.url]) {
    await using other = await startRelay({
      upstreams: [upstream],
      env: { ...env, OTEL_EXPORTER_OTLP_ENDPOINT: url },
    });
    for (let index = 0; index < 6; index++) {
      const reply = await chat({ port: other.port, key: other.key, body: { model: 'ok', messages: [] } });
      expect(reply.status).toBe(200);
    }
    const dropped = async (): Promise<number> =>
      sumOf(await scrape(other.metricsPort ?? 0), 'daybook_spans_dropped_total');
    await expect.poll(dropped).toBeGreaterThan(0);
  }
});

test('spans that a collector counts as rejected are dropped ones', async () => {
  await using partial = await startOtlpReceiver();
  partial.answer = { status: 200, body: '{"partialSuccess":{"rejectedSpans":"1"}}' };
  await using other = await startRelay({
    upstreams: [upstream],
    env: { METRICS_PORT: '0', OTEL_EXPORTER_OTLP_ENDPOINT: partial.url, OTEL_BSP_SCHEDULE_DELAY: '20' },
  });
  await chat({ port: other.port, key: other.key, body: { model: 'ok', messages: [] } });
  await expect
    .poll(async () => {
      const values = await scrape(other.metricsPort ?? 0);
      return [sumOf(values, 'daybook_spans_dropped_total'), sumOf(values, 'daybook_spans_exported_total')];
    })
    .toEqual([1, 1]);
});
