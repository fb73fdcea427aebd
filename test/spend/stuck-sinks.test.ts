import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { UsageReport } from '#server/contract/usage.ts';
import type { SinkConfig } from '#db/spend/sink-config.ts';
import type { SpendEvent } from '#db/spend/spend-event.ts';
import { createWebhookSecret } from '#db/alerts/webhooks.ts';
import { chat } from '../support/client.ts';
import { type SignedInClient, startPeopledRelay } from '../support/dashboard.ts';
import type { TestDatabase } from '../support/database.ts';
import { type TestRelay, until } from '../support/relay.ts';
import { startReceiver } from '../support/servers/alert-receiver.ts';
import { spawnWorker, type WorkerProcess } from '../support/servers/worker-process.ts';
import { refusedPort } from '../support/upstream/upstream.ts';
import type { SinkRow } from '#server/contract/sinks.ts';

/** Sinks that hang, refuse and crawl beside a healthy one, with one worker for all of them. */

const WITHIN_MS = 60_000;
const CALLS = 12;

let relay: TestRelay;
let administrator: SignedInClient;
let worker: WorkerProcess;

beforeAll(async () => {
  ({ relay, administrator } = await startPeopledRelay());
  worker = spawnWorker({
    DATABASE_URL: (relay.store as TestDatabase).url,
    DAYBOOK_DATA: relay.dataDir,
    LOG_LEVEL: 'info',
  });
});
afterAll(async () => {
  await worker?.stop();
  await relay?.[Symbol.asyncDispose]();
});

/** A receiver that acknowledges, but only seconds later. */
async function startSlowReceiver(): Promise<AsyncDisposable & { url: string; replies: number }> {
  const receiver = { replies: 0 };
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      void wait(4_000).then(() => {
        receiver.replies++;
        response.writeHead(204).end();
      });
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return Object.assign(receiver, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}

test('sinks that hang, refuse and crawl delay no other sink, no figure and no call', async () => {
  await using hanging = await startReceiver();
  hanging.reply = { status: null };
  await using slow = await startSlowReceiver();
  await using healthy = await startReceiver();
  const refused = `127.0.0.1:${await refusedPort()}`;
  const webhook = (url: string): SinkConfig => ({
    ...{ kind: 'webhook', url, allow_private: true },
    secret: createWebhookSecret(),
  });
  const configs: Record<string, SinkConfig> = {
    hanging: webhook(hanging.url),
    refusing: webhook(`http://${refused}/`),
    'refusing-kafka': {
      kind: 'kafka',
      brokers: [refused],
      topic: 'spend',
      tls: false,
      allow_private: true,
    },
    slow: webhook(slow.url),
    healthy: webhook(healthy.url),
  };
  for (const [name, config] of Object.entries(configs)) {
    const { secret: _, ...input } = { secret: null, ...config };
    expect(await administrator.post('/api/v1/sinks', { name, config: input })).toMatchObject({
      status: 200,
    });
  }
  const sinks = async (): Promise<Map<string, SinkRow>> => {
    const { body } = await administrator.get<{ data: SinkRow[] }>('/api/v1/sinks');
    return new Map(body.data.map((sink) => [sink.name, sink]));
  };
  const call = async (): Promise<void> => {
    const body = { model: 'daybook-demo', messages: [{ role: 'user', content: 'hi' }] };
    expect((await chat({ port: relay.port, key: relay.key, body })).status).toBe(200);
  };

  await call();
  // From here on all of the broken ones are in the middle of a delivery, or wait for the next.
  await until(
    async () => {
      const { hanging: first, ...others } = Object.fromEntries(await sinks());
      const failing = [others['refusing'], others['refusing-kafka']].every(
        (sink) => (sink?.failures ?? 0) > 0,
      );
      return failing && hanging.received.length > 0 && first !== undefined;
    },
    (are) => are,
    'the failures',
    WITHIN_MS,
  );
  for (let each = 1; each < CALLS; each++) await call();

  // The ending of a call is appended after its reply.
  const settled = await until(
    async () =>
      (await relay.readLog()).flatMap(({ event }) =>
        event.type === 'request.settled' ? [event.request] : [],
      ),
    (requests) => requests.length === CALLS,
    'the endings',
    WITHIN_MS,
  );
  const delivered = () =>
    healthy.received.flatMap(({ body }) => (JSON.parse(body) as { data: SpendEvent[] }).data);
  await until(
    delivered,
    (events) => events.length === CALLS,
    'the deliveries to the healthy sink',
    WITHIN_MS,
  );
  expect(delivered().map(({ request }) => request)).toEqual(settled);
  await until(
    async () => (await administrator.get<UsageReport>('/api/v1/usage')).body.totals.requests,
    (requests) => requests === CALLS,
    'the calls in the figures',
    WITHIN_MS,
  );
  const rows = await until(
    sinks,
    (found) => (found.get('hanging')?.failures ?? 0) > 0 && slow.replies > 0,
    'the time-out of the hanging sink',
    WITHIN_MS,
  );
  expect(rows.get('healthy')).toMatchObject({ state: 'active', failures: 0 });
  expect(rows.get('slow')).toMatchObject({ state: 'active', failures: 0 });
  expect(rows.get('hanging')).toMatchObject({ state: 'failing', error: 'timed_out' });
  expect(rows.get('refusing')).toMatchObject({ state: 'failing', error: 'ECONNREFUSED' });
  expect(rows.get('refusing-kafka')).toMatchObject({ state: 'failing', error: 'ECONNREFUSED' });
});
