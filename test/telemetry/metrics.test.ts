import { afterAll, beforeAll, expect, test } from 'vitest';
import { METRICS } from '#db/telemetry/catalogue.ts';
import { ServiceMetrics } from '#db/telemetry/service-metrics.ts';
import { chat } from '../support/client.ts';
import { type TestRelay, startRelay } from '../support/relay.ts';
import { countedBy, loggedBy, serversOf } from '../support/telemetry/compare-with-log.ts';
import { scrape, scrapeText, type ScrapedValue, sumOf } from '../support/telemetry/scrape.ts';
import { hasTool, refusalOf } from '../support/telemetry/tools.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

let upstream: ScriptedUpstream;
let relay: TestRelay;
let port: number;

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({
    upstreams: [{ baseUrl: upstream.baseUrl, name: 'scripted', models: ['ok', 's:*'] }],
    env: { METRICS_PORT: '0' },
  });
  port = relay.metricsPort ?? 0;
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const call = (model: string, more: object = {}) =>
  chat({ port: relay.port, key: relay.key, body: { model, messages: [], ...more } });

/** A scrape in which all calls so far have ended. */
async function scrapeSettled(settled: number): Promise<ScrapedValue[]> {
  await relay.waitFor(
    (events) => events.filter(({ event }) => event.type === 'request.settled').length >= settled,
  );
  let values = await scrape(port);
  await expect.poll(async () => sumOf((values = await scrape(port)), 'daybook_requests_total')).toBe(settled);
  return values;
}

const seriesOf = (values: readonly ScrapedValue[]): string[] =>
  values.map(({ name, labels }) => `${name} ${JSON.stringify(labels)}`);

test('counters equal the log, and each histogram has a request of the log as exemplar', async () => {
  for (const body of [{}, { stream: true }, { user: 'anna' }]) await call('ok', body);
  await call('s:status=503');
  await chat({ port: relay.port, key: 'dbk_wrong', body: {} });
  const values = await scrapeSettled(4);
  const log = await relay.readLog();
  const [server] = serversOf(values);
  if (!server) throw new Error('no server in the scrape');
  expect(countedBy(values, server.process)).toEqual(loggedBy(log, server.instance));
  expect(sumOf(values, 'daybook_rejections_total', { code: 'invalid_api_key', status: '401' })).toBe(1);
  expect(sumOf(values, 'daybook_upstream_attempts_total', { upstream: 'scripted' })).toBeGreaterThanOrEqual(
    4,
  );
  expect(sumOf(values, 'daybook_upstream_attempts_total', { outcome: 'status_503' })).toBeGreaterThan(0);
  const requests = log.flatMap(({ event }) => ('request' in event ? [event.request] : []));
  for (const name of ['daybook_request_duration_seconds', 'daybook_time_to_first_token_seconds']) {
    const exemplars = values.filter((each) => each.name === `${name}_bucket` && each.exemplar !== null);
    expect(exemplars.length).toBeGreaterThan(0);
    for (const { exemplar } of exemplars) expect(requests).toContain(exemplar?.['request_id']);
  }
});

test('names of models and users that clients make up add no series', async () => {
  const before = (await scrape(port)).length;
  const settled = sumOf(await scrape(port), 'daybook_requests_total');
  await call('s:tokens=1');
  const known = seriesOf(await scrapeSettled(settled + 1));
  expect(known.length).toBeGreaterThan(before);
  const hostile = ['gpt-"9\n{}', 'other', '__proto__', 'constructor', '\u{1f9e8}', 'x'.repeat(500)];
  for (const name of hostile) await call(name);
  for (let index = 0; index < 20; index++)
    await call(`s:tokens=${index + 2}`, { user: `user ${index} "}\n`, safety_identifier: `id-${index}` });
  const after = seriesOf(await scrapeSettled(settled + 21));
  const added = after.filter((each) => !known.includes(each));
  // A name that no upstream serves is rejected, and its code is of a closed list.
  expect(added).toEqual([expect.stringContaining('"code":"model_not_found"')]);
  expect(after.some((each) => each.includes('"model":"s:*"'))).toBe(true);
});

test('every metric of a server is reported, and no other', async () => {
  const names = new Set(
    (await scrape(port)).map(({ name }) => name.replace(/_(?:total|bucket|sum|count)$/, '')),
  );
  const expected = METRICS.filter(({ origin }) => origin !== 'worker').map(({ name }) => name);
  // Those of things that this database has none of.
  const absent = expected.filter((name) => !names.has(name));
  expect(
    absent.filter((name) => !/_(?:sink|job|checkpoint|abandoned|lease_exchange|spans)_?/.test(name)),
  ).toEqual([]);
  expect([...names].filter((name) => !expected.includes(name))).toEqual([]);
});

test('the older text format has neither exemplars nor an end mark', async () => {
  const { type, text } = await scrapeText(port, 'text/plain');
  expect(type).toBe('text/plain; version=0.0.4; charset=utf-8');
  expect(text).toContain('# TYPE daybook_requests_total counter\n');
  expect(text).not.toMatch(/ # \{|# EOF|# UNIT/);
  expect((await scrapeText(port)).type).toMatch(/^application\/openmetrics-text; version=1\.0\.0/);
});

test.skipIf(!hasTool('promtool'))('promtool accepts the metrics', async () => {
  const { text } = await scrapeText(port, 'text/plain');
  expect(refusalOf('promtool', ['check', 'metrics'], text)).toBeNull();
});

test('metrics are on no other port, and the endpoint serves nothing else', async () => {
  const relayed = await fetch(`http://127.0.0.1:${relay.port}/metrics`);
  expect(await relayed.text()).not.toContain('daybook_');
  expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(404);
  expect((await fetch(`http://127.0.0.1:${port}/metrics`, { method: 'POST' })).status).toBe(405);
});

test('with METRICS_TOKEN a scrape must send it as bearer token', async () => {
  const token = 'a-token-for-metrics';
  await using other = await startRelay({ env: { METRICS_PORT: '0', METRICS_TOKEN: token } });
  const otherPort = other.metricsPort ?? 0;
  expect((await scrapeText(otherPort)).status).toBe(401);
  expect((await scrapeText(otherPort, undefined, 'another-token-for-it')).status).toBe(401);
  const { status, text } = await scrapeText(otherPort, undefined, token);
  expect(status).toBe(200);
  expect(text).toContain('daybook_store_up 1.0\n');
});

test('a database that does not reply is a metric, and fails no scrape', async () => {
  const service = new ServiceMetrics(() => Promise.reject(new Error('no database')));
  expect(await service.read()).toEqual([{ name: 'daybook_store_up', labels: [], value: 0 }]);
});
