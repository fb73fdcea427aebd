import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Client } from 'pg';
import type { EventOf } from '#db/events/events.ts';
import { createWebhookSecret } from '#db/alerts/webhooks.ts';
import { closeClient } from '#db/postgres/connect.ts';
import type { SinkConfig } from '#db/spend/sink-config.ts';
import type { SpendEvent } from '#db/spend/spend-event.ts';
import { readSinks, type SinkStatus } from '#db/spend/sink-status.ts';
import { loadPepper } from '#server/secrets/pepper.ts';
import { withControl } from '#server/control/control.ts';
import { SinkControl } from '#server/spend/sinks.ts';
import { createDatabase, openSession, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { accepted, openLivingWriter, settled, type Writer } from '../support/log/log-writer.ts';
import { until } from '../support/relay.ts';
import { commandLine } from '../support/servers/command-line.ts';
import { isSigned, type Received, type Receiver, startReceiver } from '../support/servers/alert-receiver.ts';
import { spawnWorker, type WorkerProcess } from '../support/servers/worker-process.ts';

/** Sinks as an operator has them: two workers, receivers on real sockets, and the command line. */

const WITHIN_MS = 60_000;

let database: TestDatabase;
let dataDir: string;
let workers: WorkerProcess[];
let writer: Writer;
let client: Client;
let receiver: Receiver;
const env = () => ({ DATABASE_URL: database.url, DAYBOOK_DATA: dataDir, LOG_LEVEL: 'debug' });
const { daybook, json } = commandLine(env);

beforeAll(async () => {
  database = await createDatabase();
  dataDir = await makeTestDirectory();
  receiver = await startReceiver();
  writer = await openLivingWriter(database);
  client = await openSession(database.config('relay'));
  await sinks(() => Promise.resolve());
  workers = [spawnWorker(env()), spawnWorker(env())];
});

afterAll(async () => {
  await Promise.all((workers ?? []).map((worker) => worker.stop()));
  await writer?.[Symbol.asyncDispose]();
  if (client) await closeClient(client);
  await receiver?.[Symbol.asyncDispose]();
  await database?.[Symbol.asyncDispose]();
  await removeTestDirectory(dataDir);
});

afterEach(async () => {
  await client.query('delete from daybook.sink');
  receiver.reply = { status: 204 };
  receiver.received.length = 0;
});

function sinks<T>(work: (control: SinkControl, pepper: Buffer) => Promise<T>): Promise<T> {
  return withControl(database, 'test', async (control, connection) =>
    work(
      new SinkControl(control, connection),
      await loadPepper(connection, { DAYBOOK_DATA: dataDir, DAYBOOK_PEPPER_FILE: undefined }),
    ),
  );
}

/** Adds a sink that starts with the next event. */
const add = (name: string, config: SinkConfig, account: string | null = null) =>
  sinks((control, pepper) => control.configure(pepper, { name, config, account, after: 'now' }));

function webhook(url = receiver.url): SinkConfig & { kind: 'webhook' } {
  return { kind: 'webhook', url, secret: createWebhookSecret(), allow_private: true };
}

/** Appends so many ended calls with a charge. */
async function spend(
  count: number,
  changes: Partial<EventOf<'request.accepted'>> = {},
): Promise<EventOf<'request.settled'>[]> {
  const begun = Array.from({ length: count }, () => accepted(changes));
  const ended = begun.map((each, index) => settled(each, { cost_nanousd: 100 + index }));
  await writer.append([...begun, ...ended]);
  return ended;
}

const sinkNamed = async (name: string): Promise<SinkStatus | undefined> =>
  (await readSinks(client)).find((each) => each.name === name);
const untilDelivered = (name: string) =>
  until(
    () => sinkNamed(name),
    (sink) => sink?.behind === 0,
    `the sink ${name}`,
    WITHIN_MS,
  );
const eventsOf = ({ received }: Receiver): SpendEvent[] =>
  received.flatMap(({ body }) => (JSON.parse(body) as { data: SpendEvent[] }).data);
const requestsOf = (events: readonly { request?: string }[]) => events.map(({ request }) => request);

test('a webhook gets signed batches of all events, and its position follows', async () => {
  const config = webhook();
  await add('hook', config);
  const ended = await spend(12);
  await untilDelivered('hook');
  expect(requestsOf(eventsOf(receiver))).toEqual(requestsOf(ended));
  for (const delivery of receiver.received) {
    expect(isSigned(delivery, config.secret)).toBe(true);
    expect(JSON.parse(delivery.body)).toMatchObject({ type: 'spend_events' });
  }
  expect(await sinkNamed('hook')).toMatchObject({ delivered: 12, failures: 0, fault: null });
});

test('a sink of one account gets its events alone, without upstream costs', async () => {
  await add('own', webhook(), 'Account2');
  await spend(2);
  const own = await spend(3, { account: 'Account2' });
  await untilDelivered('own');
  expect(requestsOf(eventsOf(receiver))).toEqual(requestsOf(own));
  expect(receiver.received.map(({ body }) => body).join()).not.toContain('upstream_cost');
});

test('a dead sink delays no other, is tried with growing pauses, and loses nothing', async () => {
  await using dead = await startReceiver();
  dead.reply = { status: 503 };
  await add('dead', webhook(dead.url));
  await add('live', webhook());
  const ended = await spend(5);
  await untilDelivered('live');
  const failing = await until(
    () => sinkNamed('dead'),
    (sink) => (sink?.failures ?? 0) >= 2,
    'the dead sink',
    WITHIN_MS,
  );
  expect(failing).toMatchObject({ fault: 'http_503' });
  expect(failing?.behind).toBeGreaterThan(0);
  const later = await spend(4);
  await untilDelivered('live');
  expect(requestsOf(eventsOf(receiver))).toEqual(requestsOf([...ended, ...later]));

  dead.reply = { status: 204 };
  dead.received.length = 0;
  await sinks((control) => control.resume('dead'));
  await untilDelivered('dead');
  expect(requestsOf(eventsOf(dead))).toEqual(requestsOf([...ended, ...later]));
});

test('a sink that never answers is cut off, and holds up no other', async () => {
  await using silent = await startReceiver();
  silent.reply = { status: null };
  await add('silent', webhook(silent.url));
  await add('beside', webhook());
  await spend(3);
  await untilDelivered('beside');
  const failed = await until(
    () => sinkNamed('silent'),
    (sink) => (sink?.failures ?? 0) > 0,
    'the time-out',
    WITHIN_MS,
  );
  expect(failed).toMatchObject({ fault: 'timed_out' });
});

test('two workers deliver each batch to a sink once', async () => {
  await add('single', webhook());
  const ended: EventOf<'request.settled'>[] = [];
  for (let batch = 0; batch < 10; batch++) {
    ended.push(...(await spend(20)));
    await until(
      () => sinkNamed('single'),
      (sink) => (sink?.delivered ?? 0) > 0,
      'the first batch',
      WITHIN_MS,
    );
  }
  await untilDelivered('single');
  expect(requestsOf(eventsOf(receiver))).toEqual(requestsOf(ended));
});

test('a paused sink gets nothing, and a rewound one everything again', async () => {
  await add('moved', webhook());
  const start = (await sinkNamed('moved'))?.position ?? 0;
  const ended = await spend(3);
  await untilDelivered('moved');
  await sinks((control) => control.pause('moved'));
  const later = await spend(2);
  await add('witness', webhook(`${receiver.url}-2`));
  receiver.received.length = 0;
  await sinks((control) => control.rewind('moved', start));
  expect((await sinkNamed('moved'))?.paused_at).not.toBeNull();
  expect(receiver.received).toEqual([]);
  await sinks((control) => control.resume('moved'));
  await untilDelivered('moved');
  expect(requestsOf(eventsOf(receiver))).toEqual(requestsOf([...ended, ...later]));
});

test('CloudEvents are batches of version 1.0 with id, source, account and charge', async () => {
  await add('cloud', {
    kind: 'cloudevents',
    url: receiver.url,
    token: 'canary-token',
    event_type: 'llm.spend',
    allow_private: true,
  });
  const [ended] = await spend(1);
  await untilDelivered('cloud');
  const [{ headers, body }] = receiver.received as [Received];
  expect(headers['content-type']).toMatch(/^application\/cloudevents-batch\+json/);
  expect(headers.authorization).toBe('Bearer canary-token');
  const [event] = JSON.parse(body) as [Record<string, unknown>];
  expect(event).toMatchObject({
    specversion: '1.0',
    type: 'llm.spend',
    subject: 'Account1',
    datacontenttype: 'application/json',
    data: { request: ended?.request, cost_nanousd: 100, account: 'Account1' },
  });
  expect(event['id']).toMatch(/^0-\d+$/);
  expect(event['source']).toMatch(/^daybook\/[0-9a-f-]{36}$/);
  expect(new Date(String(event['time'])).toISOString()).toBe(event['time']);
});

test('Stripe gets one meter event for each charge of a mapped account, identified by position', async () => {
  receiver.reply = { status: 200 };
  await add('stripe', {
    ...{ kind: 'stripe', url: receiver.url, api_key: 'sk_canary', event_name: 'llm', value: 'cost_nanousd' },
    customers: { Account1: 'cus_1' },
    allow_private: true,
  });
  const ended = await spend(10);
  await spend(1, { account: 'Account2' });
  await untilDelivered('stripe');
  const sent = receiver.received.map(({ body }) => new URLSearchParams(body));
  expect(sent).toHaveLength(10);
  const values = sent.map((event) => Number(event.get('payload[value]')));
  expect(values.toSorted((left, right) => left - right)).toEqual(
    ended.map(({ cost_nanousd }) => cost_nanousd),
  );
  expect(new Set(sent.map((event) => event.get('identifier'))).size).toBe(10);
  expect(sent[0]?.get('identifier')).toMatch(/^daybook\/[0-9a-f-]{36}\/0-\d+$/);
  expect(sent[0]?.get('payload[stripe_customer_id]')).toBe('cus_1');
  expect(receiver.received[0]?.headers.authorization).toBe('Bearer sk_canary');
});

test('addresses and secrets of sinks are in no table, event, log line or list in clear text', async () => {
  const config = webhook();
  await add('secret', config);
  await spend(1);
  await untilDelivered('secret');
  const owner = await openSession(database.config('owner'));
  const { rows } = await owner.query<{ text: string }>(
    `select concat((select string_agg(s::text, '') from daybook.sink s),
      encode((select sealed_config from daybook.sink limit 1), 'escape'),
      (select string_agg(e::text, '') from daybook.control_event e)) as text`,
  );
  await closeClient(owner);
  const shown = [
    rows[0]?.text,
    (await daybook('sink', 'list')).stdout,
    ...workers.map((each) => each.output()),
  ];
  for (const text of shown) {
    expect(text).not.toContain('canary-path');
    expect(text).not.toContain(config.secret);
  }
  await expect(client.query('select sealed_config from daybook.sink')).rejects.toThrow('permission denied');
});

test('the command line manages sinks, and each change is an event', async () => {
  const added = await json('sink', 'add', 'webhook', 'billing', receiver.url, '--allow-private');
  expect(added).toMatchObject({ name: 'billing', is_new: true, secret: expect.stringMatching(/^whsec_/) });
  await spend(2);
  await untilDelivered('billing');
  expect(await json('sink', 'list')).toMatchObject([{ name: 'billing', kind: 'webhook', delivered: 2 }]);
  await json('sink', 'pause', 'billing');
  expect((await daybook('sink', 'list')).stdout).toContain('paused since');
  await json('sink', 'rewind', 'billing', '--to', '0');
  await json('sink', 'resume', 'billing');
  await json('sink', 'remove', 'billing');
  const { rows } = await client.query<{ line: string }>(
    "select line from daybook.control_event where stream = 'sink/billing' order by version",
  );
  expect(rows.map(({ line }) => /^\((\d+)/.exec(line)?.[1])).toEqual([
    '1030',
    '1032',
    '1034',
    '1033',
    '1031',
  ]);
  const refused = await Promise.all([
    daybook('sink', 'add', 'webhook', 'Upper Case', receiver.url),
    daybook('sink', 'add', 'webhook', 'ftp', 'ftp://example.com'),
    daybook('sink', 'rewind', 'billing', '--to', '99999999'),
    daybook('sink', 'pause', 'unknown'),
  ]);
  for (const { code } of refused) expect(code).not.toBe(0);
});
