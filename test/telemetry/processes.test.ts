import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Store } from '#db/postgres/connect.ts';
import { chat } from '../support/client.ts';
import { readInstances } from '../support/instances.ts';
import { makePlace, openLog, type Place } from '../support/relay.ts';
import { type ServerProcess, spawnServer } from '../support/servers/server-process.ts';
import { miscounted, serversOf } from '../support/telemetry/compare-with-log.ts';
import { metricsPortOf, scrape, type ScrapedValue, sumOf } from '../support/telemetry/scrape.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Two server processes and a worker behind one `/metrics`. */

let upstream: ScriptedUpstream;
let place: Place;
let server: ServerProcess;
let log: ReturnType<typeof openLog>;
let port: number;

beforeAll(async () => {
  upstream = await startUpstream();
  place = await makePlace({ upstreams: [upstream] });
  if (!place.store) throw new Error('the place has no database');
  const env = { DAYBOOK_INSTANCES: '2', DAYBOOK_WORKER: 'on', LOG_LEVEL: 'info', METRICS_PORT: '0' };
  server = await spawnServer({ ...place.env, ...env });
  log = openLog(place.store);
  port = metricsPortOf(server.output());
});

afterAll(async () => {
  await log?.close();
  await server?.stop();
  await place?.[Symbol.asyncDispose]();
  await upstream?.close();
});

async function callOften(times: number): Promise<void> {
  const body = { model: 'ok', messages: [] };
  for (let index = 0; index < times; index++)
    await chat({ port: server.port, key: server.firstKey ?? '', body, timeoutMs: 60_000 });
}

const upOf = (values: readonly ScrapedValue[]): Record<string, number> =>
  Object.fromEntries(
    values
      .filter(({ name }) => name === 'daybook_process_up')
      .map(({ labels, value }) => [labels['process'] ?? '', value]),
  );

/** A scrape whose counters equal the log of each server process that lives. */
async function scrapeEqualToLog(): Promise<ScrapedValue[]> {
  let values: ScrapedValue[] = [];
  await expect
    .poll(async () => {
      values = await scrape(port);
      return miscounted(values, await log.read());
    })
    .toEqual([]);
  return values;
}

test('one scrape has all server processes, the worker and, once, the service', async () => {
  await callOften(6);
  await expect
    .poll(async () => upOf(await scrape(port)))
    .toEqual({ 'server-1': 1, 'server-2': 1, worker: 1 });
  const values = await scrapeEqualToLog();
  expect(sumOf(values, 'daybook_requests_total')).toBe(6);
  expect(values.filter(({ name }) => name === 'daybook_log_head_position')).toHaveLength(1);
  await expect
    .poll(async () => sumOf(await scrape(port), 'daybook_job_runs_total', { process: 'worker' }))
    .toBeGreaterThan(0);
});

test('a killed server process is reported, and the counters of all others equal the log', async () => {
  const [first] = serversOf(await scrape(port));
  if (!first) throw new Error('no server in the scrape');
  const instances = await readInstances(place.store as Store);
  process.kill(instances.find(({ id }) => id === first.instance)?.pid ?? 0, 'SIGKILL');
  await expect.poll(async () => upOf(await scrape(port))[first.process]).toBe(0);
  await callOften(4);
  await expect.poll(async () => upOf(await scrape(port))[first.process]).toBe(1);
  await callOften(6);
  const values = await scrapeEqualToLog();
  const replaced = serversOf(values).find(({ process: name }) => name === first.process);
  expect(replaced?.instance).toBeGreaterThan(first.instance);
});
