import { Client } from 'pg';
import { get as httpGet } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { READS_PER_KEY_MAX } from '#server/read/bounds.ts';
import type { RequestPage } from '#server/contract/requests.ts';
import { chat } from '../support/client.ts';
import { accepted, openLivingWriter, type Writer } from '../support/log/log-writer.ts';
import { projectAll } from '../support/projections/projected.ts';
import { readerWith } from '../support/reader.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';

/** What the read API may cost, and what becomes of it when the store is slow or away. */

let relay: TestRelay;
let writer: Writer;

beforeAll(async () => {
  relay = await startRelay();
  writer = await openLivingWriter(relay.store);
});

afterAll(async () => {
  await writer?.[Symbol.asyncDispose]();
  await relay?.[Symbol.asyncDispose]();
});

/** Keeps everybody from the table of requests, as a store does that is too slow. */
async function lockTable(): Promise<Client> {
  const client = new Client(relay.store.config('worker'));
  await client.connect();
  await client.query('begin; lock table projection.request in access exclusive mode');
  return client;
}

test('reads of a slow store are bounded: 503, then 429 for one too many, while calls go on', async () => {
  const reader = readerWith(relay.port, relay.key);
  const lock = await lockTable();
  try {
    const reads = Array.from({ length: READS_PER_KEY_MAX + 1 }, () => reader.get('/v1/requests'));
    const call = await chat({
      port: relay.port,
      key: relay.key,
      body: { model: 'daybook-demo', messages: [] },
    });
    expect(call.status).toBe(200);
    const codes = (await Promise.all(reads)).map(({ status, json, headers }) => [
      status,
      json.error.code,
      headers.has('retry-after'),
    ]);
    expect(codes.filter(([status]) => status === 429)).toEqual([[429, 'rate_limit_exceeded', true]]);
    expect(codes.filter(([status]) => status === 503)).toEqual(
      Array.from({ length: READS_PER_KEY_MAX }, () => [503, 'store_unavailable', true]),
    );
  } finally {
    await lock.end();
  }
  expect((await reader.get('/v1/requests')).status).toBe(200);
});

test('while the tables are gone the answer is a 503, and the limits and calls are as ever', async () => {
  const reader = readerWith(relay.port, relay.key);
  const owner = new Client(relay.store.config('worker'));
  await owner.connect();
  try {
    await owner.query('alter table projection.request rename to gone');
    const answer = await reader.get('/v1/requests');
    expect([answer.status, answer.json.error.code]).toEqual([503, 'store_unavailable']);
    expect(
      (await chat({ port: relay.port, key: relay.key, body: { model: 'daybook-demo', messages: [] } }))
        .status,
    ).toBe(200);
  } finally {
    await owner.query('alter table projection.gone rename to request');
    await owner.end();
  }
});

test('an export has every row of the list and their number in a trailer', async () => {
  const { id: account } = await relay.createAccount('exporter');
  const { id: key, secret } = await relay.createKey({ account: 'exporter' });
  const reader = readerWith(relay.port, secret);
  // More than two steps of an export.
  for (let batch = 0; batch < 3; batch++)
    await writer.append(
      Array.from({ length: 800 }, (_, index) =>
        accepted({ account, key, model: index % 2 === 0 ? '=evil()' : 'm,"x"' }),
      ),
    );
  await projectAll(relay.store);
  for (const query of ['', '&model=%3Devil()', '&outcome=completed']) {
    const listed: string[] = [];
    for (let cursor = ''; ;) {
      const { json }: { json: RequestPage } = await reader.get<RequestPage>(
        `/v1/requests?limit=200${query}${cursor}`,
      );
      listed.push(...json.data.map(({ request }) => request));
      if (json.next === null) break;
      cursor = `&cursor=${json.next}`;
    }
    const { text, trailers, headers } = await readWithTrailers(`/v1/requests?format=csv${query}`, secret);
    const lines = text.trimEnd().split('\r\n').slice(1);
    expect(lines.map((line) => line.slice(0, 36))).toEqual(listed);
    expect(trailers).toMatchObject({ 'x-row-count': String(listed.length), 'x-next-cursor': '' });
    expect(headers).toMatchObject({ 'x-row-limit': '100000', 'x-behind': '0' });
    if (query !== '&outcome=completed') expect(lines.some((line) => line.includes(",'=evil(),"))).toBe(true);
  }
});

/** What `fetch` does not show. */
function readWithTrailers(
  path: string,
  key: string,
): Promise<{ text: string; trailers: object; headers: object }> {
  return new Promise((resolve, reject) => {
    httpGet({ port: relay.port, path, headers: { authorization: `Bearer ${key}` } }, (reply) => {
      let text = '';
      reply.setEncoding('utf8').on('data', (piece: string) => (text += piece));
      reply.on('end', () => resolve({ text, trailers: reply.trailers, headers: reply.headers }));
      reply.on('error', reject);
    }).on('error', reject);
  });
}
